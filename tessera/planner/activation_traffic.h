#pragma once

#include <map>
#include <string>

#include "tessera/config/batch_plan.h"
#include "tessera/config/config.h"
#include "tessera/config/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// Adds what `rank` sends in a step for activations and their gradients: over tp (with sequence
/// parallelism, Korthikanti et al. 2022) and pp; and the gradient sums of what tp leaves whole.
/// `chunks` are those of its stage.
void add_activation_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                            const StagePlan& chunks, const StageUnits& stage, int64_t rank,
                            std::map<std::string, TrafficPlan>& traffic);

}  // namespace tessera
