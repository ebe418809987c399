#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// What `rank` sends for weights and gradients in a step of `micro_batches`; axes of one rank are
/// left out.
std::map<Axis, TrafficPlan> plan_traffic(const Config& config, const ParallelDims& dims,
                                         const StageUnits& stage, int64_t micro_batches,
                                         int64_t rank);

}  // namespace tessera
