#pragma once

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"
#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// What `rank` holds of its stage's units. `schedule`: of a step. CPU ranks that are `processes`
/// receive the others' parts of a gradient before they add them; threads read them where they are.
MemoryPlan plan_memory(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                       const PipelineSchedule& schedule, const StageUnits& stage, int64_t rank,
                       bool processes = false);

}  // namespace tessera
