#include "tessera/planner/memory_plan.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/resharding.h"
#include "tessera/planner/held_elements.h"
#include "tessera/planner/step_memory.h"
#include "tessera/planner/weight_groups.h"

namespace tessera {
namespace {

// Tensors that the optimizer keeps for a parameter.
int64_t moments_of(const OptimizerConfig& optimizer, const StateOwner& owner) {
  TESSERA_CHECK(optimizer.kind != nullptr, "a plan for an optimizer whose kind is not known");
  return static_cast<int64_t>(optimizer.kind->slots(optimizer, owner).size());
}

int64_t moments_of(const OptimizerConfig& optimizer, const TensorGroup& group) {
  int64_t slots = 0;
  for (const std::string& name : group.names) {
    slots += moments_of(optimizer, {name, group.role, group.shape});
  }
  return slots;
}

}  // namespace

MemoryPlan plan_memory(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                       const PipelineSchedule& schedule, const StageUnits& stage, int64_t rank,
                       bool processes) {
  MemoryPlan plan;
  int64_t constants = 0, moments = 0;
  std::vector<int64_t> gathered;
  for (const ModelUnit& unit : stage.units) {
    constants += unit.constants;
    for (const TensorGroup& group : unit.tensors) {
      const Placement placement = place_parameter(group.role, config.model, dims);
      const int64_t own = held_elements(group, placement, dims, rank).own;
      plan.parameters += own;
      moments += own / group.count * moments_of(config.optimizer, group);
    }
    gathered.push_back(0);
    for (const WeightGroup& group : weight_groups(config, dims, unit, rank, processes)) {
      gathered.back() += group.gathered;
    }
  }
  const int64_t element = size_of(master_dtype(config.model));
  constants *= size_of(config.model.moe_router_dtype);
  plan.weights = plan.parameters * element + constants;
  plan.gradients = plan.parameters * element;
  plan.moments =
      moments * element +
      constants * moments_of(config.optimizer,
                             {"", ParamRole::kRouterBias, {config.model.n_routed_experts}});
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
  plan.peak = std::max(plan.before_update, plan.weights + plan.moments + peak.total());
  return plan;
}

}  // namespace tessera
