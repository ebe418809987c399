#include "tessera/dist/gather_text.h"

#include <ATen/ATen.h>

#include <cstring>

namespace tessera {

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

}  // namespace tessera
