#include "tessera/planner/memory_plan.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/message_size.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/resharding.h"
#include "tessera/planner/held_elements.h"
#include "tessera/planner/step_memory.h"

namespace tessera {
namespace {

// Tensors that the optimizer keeps for each parameter of this role.
int64_t moments_of(const OptimizerConfig& optimizer, ParamRole role) {
  TESSERA_CHECK(optimizer.kind != nullptr, "a plan for an optimizer whose kind is not known");
  return static_cast<int64_t>(optimizer.kind->slots(optimizer, role).size());
}

// In which a parameter is kept between steps; it is rounded to that before it is used.
DType stored_dtype(const TensorGroup& group, const ModelConfig& model) {
  if (is_norm(group.role)) return group.compute;
  return group.role == ParamRole::kEmbedding ? model.embedding_params_dtype : model.params_dtype;
}

}  // namespace

std::vector<WeightGroup> weight_groups(const Config& config, const ParallelDims& dims,
                                       const ModelUnit& unit, int64_t rank, bool processes) {
  const DType master = master_dtype(config.model);
  std::vector<WeightGroup> groups;
  for (const bool sparse : {false, true}) {
    WeightGroup sum;
    bool aliased = true;
    std::vector<std::pair<const TensorGroup*, Placement>> members;
    int64_t tensors = 0;
    for (const TensorGroup& group : unit.tensors) {
      Placement placement = place_parameter(group.role, config.model, dims);
      if (placement.is_sparse() != sparse) continue;
      tensors += group.count;
      members.emplace_back(&group, std::move(placement));
    }
    if (members.empty()) continue;
    const int64_t ranks = dims.size(members.front().second.sharded_over);
    const bool sharded = ranks > 1;
    for (const auto& [member, placement] : members) {
      const TensorGroup& group = *member;
      const auto [full, own] = held_elements(group, placement, dims, rank);
      const bool rounded = size_of(stored_dtype(group, config.model)) < size_of(master);
      if (sharded || group.compute != master || rounded) aliased = false;
      sum.gathered += full * size_of(group.compute);
      if (group.compute != master || rounded) sum.converted += own * size_of(group.compute);
      sum.gradients += full * size_of(group.compute);
      sum.summed += full * size_of(master);
      sum.shard += own * size_of(master);
      if (processes) {
        const int64_t others = ranks - 1;
        // What travels packed is there once more, at both ends.
        const auto packed = [&](DType type) {
          const bool small = own / group.count * size_of(type) < kPieceOfItsOwn;
          return tensors > 1 && small ? own * size_of(type) : 0;
        };
        if (sharded) sum.converted += (others + 1) * packed(group.compute);
        sum.received += others * (own * size_of(group.compute) + 2 * packed(group.compute));
        sum.received_summed += others * (own * size_of(master) + 2 * packed(master));
      }
      sum.reduced = sum.reduced || sharded || group.compute != master;
    }
    if (aliased) sum.gathered = sum.converted = 0;
    groups.push_back(sum);
  }
  return groups;
}

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
      moments += own * moments_of(config.optimizer, group.role);
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
      moments * element + constants * moments_of(config.optimizer, ParamRole::kRouterBias);
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
  plan.peak = plan.weights + plan.moments + peak.total();
  return plan;
}

}  // namespace tessera
