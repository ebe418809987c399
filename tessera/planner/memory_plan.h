#pragma once

#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// How long gathered weights stay, by `reshard_after_forward_policy`.
struct ReshardPolicy {
  bool keep_all_step = false;  // one gather a step
  bool keep_head = false;      // the head's weights stay from its forward to its backward
  bool reduce_once = false;    // gradients stay full over the micro-batches of a step
};

ReshardPolicy reshard_policy(const Config& config, const ParallelDims& dims);

/// What `rank` holds of its stage's units.
MemoryPlan plan_memory(const Config& config, const ParallelDims& dims, const StageUnits& stage,
                       int64_t rank);

/// What `rank` sends for weights and gradients in a step of `micro_batches`; axes of one rank are
/// left out.
std::map<std::string, TrafficPlan> plan_traffic(const Config& config, const ParallelDims& dims,
                                                const StageUnits& stage, int64_t micro_batches,
                                                int64_t rank);

}  // namespace tessera
