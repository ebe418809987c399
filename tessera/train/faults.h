#pragma once

// Faults that can be planted on purpose, to see that they are found and named (`tessera parity
// --plant`). A run without them never looks further than `none()`.

#include <cstdint>
#include <string>

namespace tessera {

struct Faults {
  enum class Kind {
    kNone,
    kScaleGradient,   // every gradient of unit `unit` times 2
    kSkipReduction,   // unit `unit` keeps its own rank's gradient instead of the sum
    kDoubleWeights,   // layer `unit` applies the routing weights of its experts twice
    kSkipPartial,     // the first parameter that is partial over axis `unit` stays so
    kShiftLabels,     // labels moved by one token
    kPerturbReplica,  // one rank's copy of the first parameter that has copies is changed
    kNonFiniteLoss,   // rank `rank` sees an infinite loss in step `step`
  };
  Kind kind = Kind::kNone;
  std::string unit;  // "embedding", "layer 3", "layer 3 experts", "head"
  int64_t rank = 0;
  int64_t step = 1;

  bool none() const { return kind == Kind::kNone; }
};

/// "scale_gradient:layer 1", "skip_reduction:head", "skip_partial:tp", "double_weights:layer 1",
/// "shift_labels", "perturb_replica:3" (rank), "non_finite_loss:2:2" (rank, step). Throws
/// ConfigError that lists them.
Faults parse_fault(const std::string& text);

}  // namespace tessera
