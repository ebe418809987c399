#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// The pipeline schedule of a step, as the run will have it, proven.
PipelineSchedule proven_schedule(const Config& config, int64_t micro_batches);

/// Throws InternalError with what validate_schedule finds wrong.
void prove(const PipelineSchedule& schedule);

/// Simulates `schedule` for the stages as they are cut.
PipelinePlan plan_pipeline(const Config& config, const PipelineSchedule& schedule,
                           const std::vector<StagePlan>& stages);

/// Decoder layers of each virtual stage. [pp * interleave]
std::vector<int64_t> layers_by_virtual_stage(const std::vector<StagePlan>& stages);

}  // namespace tessera
