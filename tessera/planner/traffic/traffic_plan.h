#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// Bytes of one unit over one axis. One message carries all its tensors.
struct UnitBytes {
  int64_t messages = 0;  // a gather has: what is frozen travels by itself
  int64_t sums = 0;      // a reduction has
  int64_t own = 0;       // this rank's part of the full weights, in the dtype of the computation
  int64_t reduced = 0;   // full gradients but for its own part
};
std::map<Axis, UnitBytes> unit_bytes(const Config& config, const ParallelDims& dims,
                                     const ModelUnit& unit, int64_t micro_batches, int64_t rank);

/// What `rank` sends for weights and gradients in a step of `micro_batches`; axes of one rank are
/// left out.
std::map<Axis, TrafficPlan> plan_traffic(const Config& config, const ParallelDims& dims,
                                         const StageUnits& stage, int64_t micro_batches,
                                         int64_t rank);

}  // namespace tessera
