#pragma once

// Faults that can be injected on purpose, to see that they are found and named (`tessera parity
// --plant`). A run without them never looks further than `none()`.

#include <cstdint>
#include <string>

namespace tessera {

struct Faults {
  enum class Kind {
    kNone,
    // Gradients.
    kScaleGradient,  // every gradient of unit `unit` times 2
    kSkipReduction,  // unit `unit` keeps its own rank's gradient instead of the sum
    kSkipPartial,    // the gradient of `parameter` (or the first) stays partial over axis `unit`
    // Tensor parallelism.
    kSliceGradient,    // the gather before the attention of layer `unit` slices its gradient
    kLocalVocabulary,  // the loss over the rank's own part of the vocabulary
    // Pipelines.
    kSwapMicroBatches,  // the second stage takes its first two messages for each other
    kDropMicroBatch,    // micro-batch `micro_batch` counts nothing
    // Context parallelism.
    kUnmergedLse,          // layer `unit`, one rank: the log-sum-exp is of its own keys alone
    kDropKeyGradient,      // layer `unit`: dk of one hop of the ring is lost
    kContiguousPositions,  // positions as if the sequence was cut into contiguous pieces
    // Experts.
    kForwardSplits,  // layer `unit`: the way back from the experts with the splits of the way there
    kDoubleWeights,  // layer `unit` applies the routing weights of its experts twice
    // Anywhere.
    kShiftLabels,     // labels moved by one token
    kPerturbReplica,  // one rank's copy of the first parameter that has copies is changed
    kNonFiniteLoss,   // rank `rank` sees an infinite loss in step `step`
  };
  Kind kind = Kind::kNone;
  std::string text;  // as it was asked for
  std::string unit;  // "embedding", "layer 3", "layer 3 experts", "head"; an axis
  std::string parameter;
  int64_t rank = 0;
  int64_t step = 1;
  int64_t micro_batch = 0;

  bool none() const { return kind == Kind::kNone; }
};

/// "scale_gradient:layer 1", "skip_reduction:head", "skip_partial:tp", "unmerged_lse:layer 1",
/// "shift_labels", "perturb_replica:3" (rank), "non_finite_loss:2:2" (rank, step). Throws
/// ConfigError that lists them.
Faults parse_fault(const std::string& text);

}  // namespace tessera
