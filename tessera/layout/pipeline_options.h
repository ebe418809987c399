#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/schedule/schedule_options.h"

namespace tessera {

/// From which the order of a step's pipeline follows: `micro_batches` of a step (see BatchPlan). A
/// run without a pipeline is one stage of one chunk.
ScheduleOptions pipeline_options(const ParallelismConfig& parallelism, int64_t micro_batches);

}  // namespace tessera
