#pragma once

// One collective among threads. Every member publishes its tensors; once all have, the work lies
// there in units (a range of one tensor to copy or to sum, straight from and to the members'
// memory) that any member executes, whoever is awake: the last to publish if it is little, all that
// wait if it is much. So no member depends on another to come back and copy its part.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/op_signature.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/reduce_kernels.h"

namespace tessera {

class LocalGroup;

/// What one member gives. `in` and `out` per operation: all_gather shards and full, reduce_scatter
/// full and shards, all_to_all in and out, all_reduce and broadcast the tensors as `out`.
struct LocalCall {
  ProcessGroup::Tensors in;
  ProcessGroup::Tensors out;
  std::vector<int64_t> in_splits;
  std::vector<int64_t> out_splits;
  bool accumulate = false;                // reduce_scatter
  ReduceOp reduce = ReduceOp::kSum;       // all_reduce
  int root = 0;                           // broadcast
  std::vector<std::vector<int>> members;  // split
  std::string name;                       // split
};

class LocalOp {
 public:
  LocalOp(int members, int64_t number);

  // --- under the lock of the group, until the last member has published
  // ---------------------------
  struct Slot {
    bool published = false;
    LocalCall call;
  };
  std::vector<Slot> slots;
  int num_published = 0;
  OpSignature signature{OpKind::kBarrier};  // of the first member to publish
  int first = -1;                           // that member
  bool closed = false;                      // all have published, it runs
  bool cancelled = false;                   // a member that failed took its part back: never run
  std::string error;                        // why it can never run; written before failed

  // --- after that ------------------------------------------------------------------------------
  const int64_t number;  // of the operation in its group, from 0
  std::atomic<bool> failed{false};
  std::vector<std::atomic<bool>> waiting;           // members that may sleep for it
  std::vector<std::shared_ptr<LocalGroup>> groups;  // split: one per list

  /// Lays out the units. Throws InternalError if the calls do not fit together.
  void plan();
  /// Bytes read and written by all units together.
  int64_t traffic() const { return traffic_; }
  int64_t num_units() const { return static_cast<int64_t>(units_.size()); }
  /// Opens the units to all members.
  void set_ready() { ready_.store(true); }
  bool ready() const { return ready_.load(); }
  /// Executes units until none is left to take. True if this call finished the last one.
  bool run_units();
  bool done() const { return ready() && finished_.load() == num_units(); }

 private:
  // Elements (reductions) or bytes (copies) [begin, end) of what member `from` holds of tensor
  // `tensor`; `to` is the receiving member of an all_to_all and the owner in a reduce_scatter.
  struct Unit {
    int32_t tensor;
    int32_t from;
    int32_t to;
    int64_t begin;
    int64_t end;
  };

  int size() const { return static_cast<int>(slots.size()); }
  void add_units(int tensor, int from, int to, int64_t extent, int64_t grain);
  void plan_all_to_all();
  void execute(const Unit& unit) const;
  void all_gather(const Unit& unit) const;
  void reduce_scatter(const Unit& unit) const;
  void all_reduce(const Unit& unit) const;
  void all_to_all(const Unit& unit) const;
  void broadcast(const Unit& unit) const;

  std::vector<Unit> units_;
  std::vector<ReduceKernel> kernels_;              // per tensor
  std::vector<int64_t> in_offsets_, out_offsets_;  // all_to_all, bytes, [member * size + peer]
  int64_t traffic_ = 0;
  std::atomic<bool> ready_{false};
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> finished_{0};
};

}  // namespace tessera
