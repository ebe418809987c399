#pragma once

// The memory of one call of the model (embedding, a layer, norm and head), told as its operations
// in the order of the forward: what each makes, and what it keeps for its backward. The most that
// forward and backward need follows from when each tensor is made and freed, as autograd does it.

#include <cstdint>
#include <vector>

#include "tessera/planner/tapes/work.h"

namespace tessera {

/// Bytes of one call of one micro-batch.
struct CallMemory {
  int64_t input = 0;   // kept by whoever calls, as is the output
  int64_t output = 0;  // also of the gradient of it
  int64_t kept = 0;    // from the forward to the backward, beside input and output
  /// Most at one time in the forward, the output included.
  int64_t forward_peak = 0;
  /// Most at one time in the backward beyond input, output, the output's gradient and `kept`;
  /// gradients of input and weights included.
  int64_t backward_peak = 0;
  int64_t weight_gradients = 0;  // in backward_peak

  bool operator==(const CallMemory&) const = default;
};

class ActivationTape {
 public:
  using Tensor = int32_t;

  struct Operation {
    std::vector<Tensor> inputs;  // each gets a gradient
    int64_t bytes = 0;           // of the result; 0: a view of view_of
    Tensor view_of = -1;
    int64_t gradient = -1;  // of the result's gradient; -1: as the result
    std::vector<Tensor> saved;
    bool saves_result = false;
    int64_t keeps = 0;           // what it makes for its backward beside the result
    int64_t forward_extra = 0;   // while it runs
    int64_t backward_extra = 0;  // while its backward runs
    int64_t weight_gradient = 0;
    bool passes_gradient = false;  // the inputs' gradients are the result's (a sum)
    bool makes_gradients = false;  // in the forward already: `keeps` holds them
    /// What there is to do. None said: the tensors that it reads and makes pass through memory.
    std::vector<Work> forward, backward;
  };

  /// `input_bytes`: of the call's input, which gets a gradient; 0: token ids.
  explicit ActivationTape(int64_t input_bytes);
  Tensor input() const { return 0; }

  Tensor add(Operation operation);
  /// The forward lets go of it: it lives on only where it is kept.
  void release(Tensor tensor);
  /// The forward lets go of all that was made since the last time but `kept`.
  void end_scope(Tensor kept);

  /// What lies between runs without keeping anything but its inputs, and again in the backward
  /// (activation checkpointing of a sub-module). Not nested.
  void begin_checkpoint();
  void end_checkpoint(Tensor result);

  /// What lies between, inside of what runs again, does not: its first run keeps its inputs, its
  /// result and what its backward needs. Not nested. `copied`: what reads the result gets a copy of
  /// it the first time.
  void begin_kept(bool copied);
  void end_kept(Tensor result);

  /// `output` is the result of the call. `recompute`: the whole call runs again in the backward.
  CallMemory measure(Tensor output, bool recompute) const;
  /// What there is to do in the forward and in the backward.
  CallWork work(bool recompute) const;

 private:
  struct Item {
    enum class Kind { kOperation, kRelease, kEndScope, kBegin, kEnd, kBeginKept, kEndKept };
    Kind kind;
    Operation operation;
    Tensor tensor = -1;  // the result; what is released; what a scope or a checkpoint leaves
    bool copied = false;
  };
  class Run;

  Tensor root(Tensor tensor) const;
  bool keeps_any() const;
  std::vector<Work> forward_of(const Item& item) const;
  std::vector<Work> backward_of(const Item& item) const;

  std::vector<Item> items_;
  std::vector<int64_t> bytes_;     // of each tensor; views have none
  std::vector<int64_t> gradient_;  // of its gradient
  std::vector<Tensor> view_of_;
};

}  // namespace tessera
