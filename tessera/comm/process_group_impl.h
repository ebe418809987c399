#pragma once

// What a transport implements. Arguments arrive checked by ProcessGroup (process_group.cpp), which
// also counts the bytes, so that counters agree between transports.

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"

namespace tessera {

struct ProcessGroup::Impl {
  Impl(int rank, std::vector<int> ranks, std::string name)
      : rank(rank), ranks(std::move(ranks)), name(std::move(name)) {}
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int size() const { return static_cast<int>(ranks.size()); }

  /// `members` of the caller is member_list_of(members, ranks[rank]).
  virtual std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                                      const std::string& name) = 0;
  virtual std::shared_ptr<Impl> alias(const std::string& name) = 0;
  virtual at::Device device() const { return at::kCPU; }

  virtual bool overlaps_compute() const { return false; }
  virtual Work all_gather(Tensors full, Tensors shards) = 0;
  virtual Work reduce_scatter(Tensors shards, Tensors full, bool accumulate) = 0;
  virtual Work all_reduce(Tensors tensors, ReduceOp op) = 0;
  virtual Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                          std::vector<int64_t> in_splits) = 0;
  virtual Work broadcast(Tensors tensors, int root) = 0;
  virtual Work send(at::Tensor tensor, int peer, int64_t tag) = 0;
  virtual Work recv(at::Tensor tensor, int peer, int64_t tag) = 0;
  virtual void barrier() = 0;

  const int rank;
  const std::vector<int> ranks;
  const std::string name;
  CommStats stats;
  std::shared_ptr<CommStats> stats_of_axis;  // of the group that this is a part of, or null
};

/// The list of `members` that holds world rank `rank`; it must be in exactly one.
const std::vector<int>& member_list_of(const std::vector<std::vector<int>>& members, int rank);

/// "ranks 1, 3" or "rank 1".
std::string join_ranks(const std::vector<int>& ranks);

/// "0.1 s".
std::string seconds_text(std::chrono::milliseconds duration);

}  // namespace tessera
