#include "tessera/planner/memory_plan.h"

#include <algorithm>

#include "tessera/layout/dtypes.h"
#include "tessera/layout/resharding.h"
#include "tessera/planner/moment_plan.h"
#include "tessera/planner/step_memory.h"
#include "tessera/planner/tapes/held_elements.h"
#include "tessera/planner/weight_groups.h"

namespace tessera {
MemoryPlan plan_memory(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                       const PipelineSchedule& schedule, const StageUnits& stage, int64_t rank,
                       bool processes) {
  MemoryPlan plan;
  int64_t constants = 0;
  std::vector<int64_t> gathered;
  for (const ModelUnit& unit : stage.units) {
    constants += unit.constants;
    for (const TensorGroup& group : unit.tensors) {
      const Placement placement = place_parameter(group.role, config.model, dims);
      const int64_t own = held_elements(group, placement, dims, rank).own;
      plan.parameters += own;
      plan.weights += own * size_of(group.held);
      if (!group.frozen) plan.gradients += own * size_of(group.held);
      plan.moments += moment_bytes(config, dims, group, rank);
    }
    gathered.push_back(0);
    for (const WeightGroup& group : weight_groups(config, dims, unit, rank, processes)) {
      gathered.back() += group.gathered;
    }
  }
  plan.weights += constants * size_of(config.model.moe_router_dtype);
  if (resharding(config, dims).keep_all_step) {
    for (const int64_t bytes : gathered) plan.gathered += bytes;
  } else {
    for (size_t i = 0; i < gathered.size(); ++i) {
      const int64_t next = i + 1 < gathered.size() ? gathered[i + 1] : 0;
      plan.gathered = std::max(plan.gathered, gathered[i] + next);
    }
  }
  const StepPeak peak = plan_step_peak(config, dims, batch, schedule, stage, rank, processes);
  plan.activations = peak.activations;
  plan.before_update = plan.weights + plan.moments + plan.gradients + peak.left;
  plan.update = plan_opened(config, dims, stage, rank).bytes;
  plan.peak =
      std::max(plan.before_update + plan.update, plan.weights + plan.moments + peak.total());
  return plan;
}

}  // namespace tessera
