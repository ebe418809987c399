#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/stage_units.h"
#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// Bytes of one rank at the fullest moment of a step, beside masters and moments.
struct StepPeak {
  int64_t activations = 0;
  int64_t gathered = 0;   // full weights
  int64_t gradients = 0;  // full ones and shards, as many as there are then
  int64_t left = 0;       // activations when the step's passes are over

  int64_t total() const { return activations + gathered + gradients; }
};

/// Goes through the rank's list of the schedule call by call, as the run will, and adds up what
/// lives. `processes`: see plan_memory.
StepPeak plan_step_peak(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                        const PipelineSchedule& schedule, const StageUnits& stage, int64_t rank,
                        bool processes);

}  // namespace tessera
