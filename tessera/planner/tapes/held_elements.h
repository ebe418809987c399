#pragma once

#include <cstdint>

#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/placement.h"
#include "tessera/planner/model_units.h"

namespace tessera {

/// What one rank holds of the equal tensors of a group, in elements.
struct HeldElements {
  int64_t gathered = 0;  // what it computes with
  int64_t own = 0;       // what it keeps between uses
};

HeldElements held_elements(const TensorGroup& group, const Placement& placement,
                           const ParallelDims& dims, int64_t rank);

}  // namespace tessera
