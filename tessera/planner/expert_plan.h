#pragma once

#include <optional>

#include "tessera/planner/plan.h"

namespace tessera {

/// What tokens on their way to experts cost, with even routing; nothing without expert parallelism.
/// `stages` are those of the plan.
std::optional<ExpertPlan> plan_experts(const Config& config, const ParallelDims& dims,
                                       const BatchPlan& batch,
                                       const std::vector<StagePlan>& stages);

}  // namespace tessera
