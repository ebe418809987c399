#include "tessera/planner/memory_plan.h"

#include <algorithm>

#include "tessera/planner/placement_rules.h"

namespace tessera {
namespace {

int64_t moments_per_element(const OptimizerConfig& optimizer) {
  if (optimizer.type == "SGD") return optimizer.momentum != 0.0 ? 1 : 0;
  return optimizer.amsgrad ? 3 : 2;
}

// In which a parameter is kept between steps; it is rounded to that before it is used.
DType stored_dtype(const TensorGroup& group, const ModelConfig& model) {
  if (is_norm(group.role)) return group.compute;
  return group.role == ParamRole::kEmbedding ? model.embedding_params_dtype : model.params_dtype;
}

// Bytes of a unit's full weights as `rank` computes with them; none where they are the masters
// themselves.
int64_t gathered_bytes(const Config& config, const ParallelDims& dims, const ModelUnit& unit,
                       int64_t rank) {
  const DType master = master_dtype(config.model);
  int64_t bytes = 0;
  bool aliased = true;
  for (const TensorGroup& group : unit.tensors) {
    const bool sharded = is_expert(group.role) && dims.ep > 1 ? dims.efsdp() > 1 : dims.fsdp() > 1;
    const bool rounded = size_of(stored_dtype(group, config.model)) < size_of(master);
    if (sharded || group.compute != master || rounded) aliased = false;
    bytes +=
        group.count * size_of(group.compute) *
        local_elements(group.shape, compute_cuts_of(group.role, config.model, dims), dims, rank);
  }
  return aliased ? 0 : bytes;
}

}  // namespace

ReshardPolicy reshard_policy(const Config& config, const ParallelDims& dims) {
  const std::string& asked = config.parallelism.reshard_after_forward_policy;
  const bool never = asked == "never" || (asked == "default" && dims.pp > 1);
  return {never, asked != "always", never && dims.pp > 1};
}

MemoryPlan plan_memory(const Config& config, const ParallelDims& dims, const StageUnits& stage,
                       int64_t rank) {
  MemoryPlan plan;
  std::vector<int64_t> gathered;
  for (const ModelUnit& unit : stage.units) {
    for (const TensorGroup& group : unit.tensors) {
      plan.parameters +=
          group.count *
          local_elements(group.shape, cuts_of(group.role, config.model, dims), dims, rank);
    }
    gathered.push_back(gathered_bytes(config, dims, unit, rank));
  }
  const int64_t element = size_of(master_dtype(config.model));
  plan.weights = plan.parameters * element;
  plan.gradients = plan.parameters * element;
  plan.moments = plan.parameters * element * moments_per_element(config.optimizer);
  if (reshard_policy(config, dims).keep_all_step) {
    for (const int64_t bytes : gathered) plan.gathered += bytes;
  } else {
    for (size_t i = 0; i < gathered.size(); ++i) {
      const int64_t next = i + 1 < gathered.size() ? gathered[i + 1] : 0;
      plan.gathered = std::max(plan.gathered, gathered[i] + next);
    }
  }
  return plan;
}

}  // namespace tessera
