#include "tessera/comm/gather_text.h"

#include <ATen/ATen.h>

#include <cstring>
#include <numeric>

namespace tessera {
namespace {

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.mutable_data_ptr()));
  return bytes;
}

// The members' `own` one after the other on `root`, where the one of member i has rows[i] rows.
at::Tensor concatenated_on(int root, const ProcessGroup& group, const at::Tensor& own,
                           std::vector<int64_t> rows) {
  std::vector<int64_t> to(rows.size(), 0);
  to[static_cast<size_t>(root)] = own.size(0);
  if (group.rank() != root) std::fill(rows.begin(), rows.end(), 0);
  at::Tensor all =
      at::empty({std::accumulate(rows.begin(), rows.end(), int64_t{0})}, own.options());
  group.all_to_all(all, own, std::move(rows), std::move(to)).wait();
  return all;
}

}  // namespace

std::vector<std::string> gather_texts(const ProcessGroup& group, const std::string& text) {
  at::Tensor longest = at::scalar_tensor(static_cast<int64_t>(text.size()), at::kLong);
  group.all_reduce({longest}, ReduceOp::kMax).wait();
  const int64_t length = longest.item<int64_t>();
  std::vector<std::string> texts(static_cast<size_t>(group.size()));
  if (length == 0) return texts;
  at::Tensor own = at::zeros({length}, at::kByte);
  std::memcpy(own.mutable_data_ptr(), text.data(), text.size());
  at::Tensor all = at::empty({length * group.size()}, at::kByte);
  group.all_gather({all}, {own}).wait();
  for (int i = 0; i < group.size(); ++i) {
    const auto* begin = static_cast<const char*>(all.const_data_ptr()) + i * length;
    texts[static_cast<size_t>(i)].assign(begin, strnlen(begin, static_cast<size_t>(length)));
  }
  return texts;
}

std::vector<std::string> gather_texts_to(int root, const ProcessGroup& group,
                                         const std::string& text) {
  const at::Tensor own = bytes_of(text);
  const at::Tensor counts =
      concatenated_on(root, group, at::full({1}, own.size(0), at::kLong),
                      std::vector<int64_t>(static_cast<size_t>(group.size()), 1));
  std::vector<int64_t> lengths(static_cast<size_t>(group.size()), 0);
  std::copy_n(counts.const_data_ptr<int64_t>(), counts.numel(), lengths.begin());
  const at::Tensor all = concatenated_on(root, group, own, lengths);
  std::vector<std::string> texts;
  if (group.rank() != root) return texts;
  const auto* at = static_cast<const char*>(all.const_data_ptr());
  for (const int64_t length : lengths) {
    texts.emplace_back(at, at + length);
    at += length;
  }
  return texts;
}

std::string broadcast_text(int root, const ProcessGroup& group, const std::string& text) {
  at::Tensor length = at::scalar_tensor(static_cast<int64_t>(text.size()), at::kLong);
  group.broadcast({length}, root).wait();
  at::Tensor bytes =
      group.rank() == root ? bytes_of(text) : at::empty({length.item<int64_t>()}, at::kByte);
  group.broadcast({bytes}, root).wait();
  const auto* begin = static_cast<const char*>(bytes.const_data_ptr());
  return {begin, begin + bytes.numel()};
}

}  // namespace tessera
