#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/plan.h"
#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// The schedule of a step, as the run will have it.
ScheduleOptions schedule_options(const Config& config, const ParallelDims& dims,
                                 int64_t micro_batches);

/// Simulates it for the stages as they are cut.
PipelinePlan plan_pipeline(const Config& config, const ParallelDims& dims,
                           const std::vector<StagePlan>& stages, int64_t micro_batches);

/// Decoder layers of each virtual stage. [pp * interleave]
std::vector<int64_t> layers_by_virtual_stage(const std::vector<StagePlan>& stages);

}  // namespace tessera
