#include "tessera/planner/tapes/held_elements.h"

namespace tessera {

HeldElements held_elements(const TensorGroup& group, const Placement& placement,
                           const ParallelDims& dims, int64_t rank) {
  const auto elements = [&](const std::vector<AxisCut>& cuts) {
    return group.count * box_of(group.shape, cuts, dims, rank).numel();
  };
  return {elements(placement.cuts), elements(stored_cuts(placement, group.shape, dims))};
}

}  // namespace tessera
