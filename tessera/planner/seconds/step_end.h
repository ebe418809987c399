#pragma once

#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/seconds/work_seconds.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// What a rank does when the passes of a step are over: partial sums of gradients, the norm, the
/// update; and loading, which nothing hides where ranks share cores. `slow`: how much slower it
/// computes, since all ranks do so.
SpentSeconds step_end(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                      const StageUnits& stage, int64_t rank, const WorkSeconds& seconds,
                      double slow);

/// Seconds of one checkpoint that a step waits for; 0: none, or the machine's disk is not known.
double save_seconds(const Config& config, const ParallelDims& dims,
                    const std::vector<StageUnits>& stages, const Machine& machine);

}  // namespace tessera
