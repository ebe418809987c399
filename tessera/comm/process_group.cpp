#include "tessera/comm/process_group.h"

#include <numeric>
#include <sstream>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"
#include "tessera/comm/tensor_bytes.h"
#include "tessera/comm/turns.h"

namespace tessera {
namespace {

int64_t bytes_of(const ProcessGroup::Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void check_contiguous(const char* operation, const at::Tensor& tensor) {
  TESSERA_CHECK(tensor.defined() && tensor.is_contiguous(), operation,
                " takes defined, contiguous tensors");
}

// `shard` holds rows part_of(rows of full, size, rank).
void check_shard(const char* operation, const at::Tensor& full, const at::Tensor& shard, int size,
                 int rank) {
  check_contiguous(operation, full);
  check_contiguous(operation, shard);
  TESSERA_CHECK(full.dim() >= 1 && shard.dim() == full.dim(), operation, ": ", full.sizes(),
                " and shard ", shard.sizes());
  TESSERA_CHECK_EQ(shard.size(0), part_of(full.size(0), size, rank).size(), operation,
                   ": rows of the shard of ", full.sizes(), " of member ", rank, " of ", size);
  TESSERA_CHECK(full.sizes().slice(1) == shard.sizes().slice(1), operation, ": ", full.sizes(),
                " and shard ", shard.sizes());
}

void count(ProcessGroup::Impl& impl, const char* operation, int64_t bytes) {
  for (CommStats* stats : {&impl.stats, impl.stats_of_axis.get()}) {
    if (stats == nullptr) continue;
    CommStats::Count& entry = stats->operations[operation];
    ++entry.calls;
    entry.bytes += bytes;
  }
}

// Checks `splits` against the rows of `tensor`; returns the bytes of one row.
int64_t check_splits(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size) {
  check_contiguous("all_to_all", tensor);
  TESSERA_CHECK(tensor.dim() >= 1);
  TESSERA_CHECK_EQ(static_cast<int>(splits.size()), size, "splits of an all_to_all");
  for (int64_t rows : splits) TESSERA_CHECK(rows >= 0, "split of ", rows, " rows");
  TESSERA_CHECK_EQ(std::accumulate(splits.begin(), splits.end(), int64_t{0}), tensor.size(0),
                   "sum of the splits and rows of ", tensor.sizes());
  return row_bytes(tensor);
}

}  // namespace

int64_t CommStats::total_bytes() const {
  int64_t total = 0;
  for (const auto& [operation, entry] : operations) total += entry.bytes;
  return total;
}

void Work::wait() {
  if (!impl_) return;
  const TimelineSpan span(timeline_of_turn(), "wait", collective_ ? collective_ : "message");
  if (collective_ != nullptr) pass_turn();
  // The other part may have waited for it meanwhile.
  const std::shared_ptr<Impl> impl = std::move(impl_);
  if (!impl || impl->complete) return;
  impl->wait();
  impl->complete = true;
}

Work ProcessGroup::collective(const char* name, Work work) {
  work.collective_ = name;
  return work;
}

ProcessGroup::ProcessGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

ProcessGroup::Impl& ProcessGroup::impl() const {
  TESSERA_CHECK(impl_ != nullptr, "an empty process group was used");
  return *impl_;
}

int ProcessGroup::rank() const { return impl().rank; }

int ProcessGroup::size() const { return impl().size(); }

const std::vector<int>& ProcessGroup::ranks() const { return impl().ranks; }

const std::string& ProcessGroup::name() const { return impl().name; }

at::Device ProcessGroup::device() const { return impl().device(); }

bool ProcessGroup::overlaps_compute() const { return impl().overlaps_compute(); }

CommStats& ProcessGroup::stats() const { return impl().stats; }

ProcessGroup ProcessGroup::split(const std::vector<std::vector<int>>& members,
                                 const std::string& name) const {
  ProcessGroup part(impl().split(members, name));
  const std::string& own = impl().name;
  if (name == own || name.starts_with(own + "/")) {
    part.impl().stats_of_axis = impl().stats_of_axis
                                    ? impl().stats_of_axis
                                    : std::shared_ptr<CommStats>(impl_, &impl().stats);
  }
  return part;
}

ProcessGroup ProcessGroup::alias(const std::string& name) const {
  return ProcessGroup(impl().alias(name));
}

Work ProcessGroup::all_gather(Tensors full, Tensors shards) const {
  TESSERA_CHECK_EQ(full.size(), shards.size(), "all_gather");
  for (size_t i = 0; i < full.size(); ++i) {
    check_shard("all_gather", full[i], shards[i], size(), rank());
    TESSERA_CHECK(full[i].scalar_type() == shards[i].scalar_type(), "all_gather changes no dtype");
  }
  count(impl(), "all_gather", (size() - 1) * bytes_of(shards));
  return collective("all_gather", impl().all_gather(std::move(full), std::move(shards)));
}

Work ProcessGroup::reduce_scatter(Tensors shards, Tensors full, bool accumulate) const {
  TESSERA_CHECK_EQ(full.size(), shards.size(), "reduce_scatter");
  int64_t own = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    check_shard("reduce_scatter", full[i], shards[i], size(), rank());
    own += shards[i].numel() * static_cast<int64_t>(full[i].element_size());
  }
  count(impl(), "reduce_scatter", bytes_of(full) - own);
  return collective("reduce_scatter",
                    impl().reduce_scatter(std::move(shards), std::move(full), accumulate));
}

Work ProcessGroup::all_reduce(Tensors tensors, ReduceOp op) const {
  for (const at::Tensor& tensor : tensors) check_contiguous("all_reduce", tensor);
  count(impl(), "all_reduce", 2 * (size() - 1) * bytes_of(tensors) / size());
  return collective("all_reduce", impl().all_reduce(std::move(tensors), op));
}

Work ProcessGroup::all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                              std::vector<int64_t> in_splits) const {
  const int64_t out_row = check_splits(out, out_splits, size());
  const int64_t in_row = check_splits(in, in_splits, size());
  TESSERA_CHECK(out.scalar_type() == in.scalar_type() && out_row == in_row, "all_to_all from ",
                in.sizes(), " to ", out.sizes());
  TESSERA_CHECK_EQ(out_splits[rank()], in_splits[rank()], "rows an all_to_all keeps on the rank");
  count(impl(), "all_to_all", (in.size(0) - in_splits[rank()]) * in_row);
  return collective("all_to_all", impl().all_to_all(std::move(out), std::move(in),
                                                    std::move(out_splits), std::move(in_splits)));
}

Work ProcessGroup::broadcast(Tensors tensors, int root) const {
  TESSERA_CHECK(root >= 0 && root < size(), "broadcast from member ", root, " of ", size());
  for (const at::Tensor& tensor : tensors) check_contiguous("broadcast", tensor);
  count(impl(), "broadcast", root == rank() && size() > 1 ? bytes_of(tensors) : 0);
  return collective("broadcast", impl().broadcast(std::move(tensors), root));
}

Work ProcessGroup::send(at::Tensor tensor, int peer, int64_t tag) const {
  TESSERA_CHECK(peer >= 0 && peer < size(), "send to member ", peer, " of ", size());
  check_contiguous("send", tensor);
  count(impl(), "send", peer == rank() ? 0 : static_cast<int64_t>(tensor.nbytes()));
  return impl().send(std::move(tensor), peer, tag);
}

Work ProcessGroup::recv(at::Tensor tensor, int peer, int64_t tag) const {
  TESSERA_CHECK(peer >= 0 && peer < size(), "recv from member ", peer, " of ", size());
  check_contiguous("recv", tensor);
  return impl().recv(std::move(tensor), peer, tag);
}

void ProcessGroup::barrier() const { impl().barrier(); }

const std::vector<int>& member_list_of(const std::vector<std::vector<int>>& members, int rank) {
  const std::vector<int>* found = nullptr;
  for (const std::vector<int>& list : members) {
    for (int member : list) {
      if (member != rank) continue;
      TESSERA_CHECK(found == nullptr, "rank ", rank, " is in two groups of a split");
      found = &list;
    }
  }
  TESSERA_CHECK(found != nullptr, "rank ", rank, " is in no group of a split");
  return *found;
}

std::string join_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string seconds_text(std::chrono::milliseconds duration) {
  std::ostringstream text;
  text << static_cast<double>(duration.count()) / 1e3 << " s";
  return text.str();
}

}  // namespace tessera
