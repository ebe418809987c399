#pragma once

// Who a rank talks to. `ProcessGroup` is a small value over a private implementation: one rank
// alone, threads of this process, processes over Gloo, devices over NCCL, or a fake that counts.
// Nothing above comm/ knows which.
//
// Rules for callers, the same for every transport:
//  - Tensors are contiguous and stay alive and unwritten from the call until Work::wait() returns.
//    After wait() the outputs are complete and the inputs may be written again (of devices: by what
//    is then launched on the stream that waited).
//  - All members of a group call the same operations in the same order with matching shapes; a
//    mismatch is an error where the transport can see it.
//  - A group of one rank returns its input: nobody writes `if (size > 1)`.
//  - Sums have a fixed order, so results repeat bitwise and every member that receives a sum
//    receives the same bits. It is member 0 first; between devices it is NCCL's, fixed for a given
//    set of devices.
// Failures of a peer or a link throw CommError in every member that waits. Between devices they end
// the process, with a line that says the same (nccl_group.h).

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

enum class ReduceOp { kSum, kMax, kMin };

struct GroupOptions {
  /// How long a rank waits for its peers before it throws CommError naming the missing ones.
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
};

/// A started operation. A default-constructed Work is complete. Its waits are where two parts of a
/// rank's work take turns (turns.h).
class Work {
 public:
  struct Impl {
    virtual ~Impl() = default;
    /// Not called again once it has returned.
    virtual void wait() = 0;
    bool complete = false;
  };
  Work() = default;
  explicit Work(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  /// Blocks until the operation is complete for this rank; between devices, makes the current
  /// stream wait for that. Calling it again, also of a copy, does nothing.
  void wait();

 private:
  friend class ProcessGroup;
  std::shared_ptr<Impl> impl_;
  const char* collective_ = nullptr;  // its name; nullptr: a message
};

/// What a group has sent from this rank so far, by operation ("all_gather", "reduce_scatter",
/// "all_reduce", "all_to_all", "broadcast", "send"). `bytes` are the bytes an ideal algorithm sends
/// per rank: all-gather (n-1) x own part, reduce-scatter the input but for the own part ((n-1)/n of
/// it), all-reduce 2(n-1)/n x tensor, all-to-all what goes to other ranks, broadcast the tensor
/// (from the root alone), send the message.
struct CommStats {
  struct Count {
    int64_t calls = 0;
    int64_t bytes = 0;
  };
  std::map<std::string, Count> operations;
  int64_t total_bytes() const;
};

class ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  struct Impl;  // process_group_impl.h

  ProcessGroup() = default;
  explicit ProcessGroup(std::shared_ptr<Impl> impl);

  int rank() const;  // position in the group
  int size() const;
  const std::vector<int>& ranks() const;  // world ranks of the members, in group order
  const std::string& name() const;        // the axis, for errors, traces and counters
  /// Where this rank computes. Tensors that travel are there or in host memory.
  at::Device device() const;
  /// Whether an operation goes on while its members compute, so that computation can hide its time.
  /// False among threads of one process: there the members copy the data themselves, and an
  /// operation takes the time of these copies only.
  bool overlaps_compute() const;
  CommStats& stats() const;

  /// Collective over this group: makes the groups of `members` (world ranks, every rank of this
  /// group in exactly one list) and returns the caller's. All ranks pass the same lists. What a
  /// part sends also counts for this group where `name` is its name, or that and "/" and more.
  ProcessGroup split(const std::vector<std::vector<int>>& members, const std::string& name) const;

  /// The same members and the same transport under another name and with counters of its own, for a
  /// second axis of equal members. Not a collective.
  ProcessGroup alias(const std::string& name) const;

  // --- collectives; each returns at once, wait() completes it -----------------------------------

  /// full[i] ([rows_i, ...]) := the members' shards one after the other along dimension 0. Member r
  /// gives rows part_of(rows_i, size, r) in shards[i] (so the last shards may be shorter or empty).
  Work all_gather(Tensors full, Tensors shards) const;

  /// shards[i] := (or +=, if `accumulate`) rows part_of(rows_i, size, rank) of the sum over members
  /// of full[i] ([rows_i, ...]). The sum is made in the shard's dtype (float32 shards of bfloat16
  /// inputs).
  Work reduce_scatter(Tensors shards, Tensors full, bool accumulate = false) const;

  /// In place. Several tensors of several dtypes travel as one message where that is faster.
  Work all_reduce(Tensors tensors, ReduceOp op = ReduceOp::kSum) const;

  /// Rows (dimension 0): member j receives in_splits[j] rows of `in`; out_splits[j] rows of `out`
  /// come from member j. Splits may be zero.
  Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                  std::vector<int64_t> in_splits) const;

  /// In place, from member `root`.
  Work broadcast(Tensors tensors, int root) const;

  /// Point to point, `peer` a position in this group. Buffered: wait() of a send returns when the
  /// tensor may be written again, whether or not the peer has asked for it. Messages with the same
  /// (sender, receiver, tag) arrive in order. Between devices there are no tags: of one sender,
  /// messages with tags equal modulo 4 are asked for in the order in which they leave.
  Work send(at::Tensor tensor, int peer, int64_t tag) const;
  Work recv(at::Tensor tensor, int peer, int64_t tag) const;

  /// Returns when every member has called it.
  void barrier() const;

  explicit operator bool() const { return impl_ != nullptr; }

 private:
  Impl& impl() const;
  static Work collective(const char* name, Work work);

  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera
