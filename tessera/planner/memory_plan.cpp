#include "tessera/planner/memory_plan.h"

#include <algorithm>

#include "tessera/base/message_size.h"
#include "tessera/layout/dtypes.h"
#include "tessera/planner/placement_rules.h"
#include "tessera/planner/step_memory.h"

namespace tessera {
namespace {

int64_t moments_per_element(const OptimizerConfig& optimizer) {
  if (optimizer.type == "SGD") return optimizer.momentum != 0.0 ? 1 : 0;
  return optimizer.amsgrad ? 3 : 2;
}

}  // namespace

ReshardPolicy reshard_policy(const Config& config, const ParallelDims& dims) {
  const std::string& asked = config.parallelism.reshard_after_forward_policy;
  const bool never = asked == "never" || (asked == "default" && dims.pp > 1);
  return {never, asked != "always", never && dims.pp > 1};
}

std::vector<WeightGroup> weight_groups(const Config& config, const ParallelDims& dims,
                                       const ModelUnit& unit, int64_t rank, bool processes) {
  const DType master = master_dtype(config.model);
  std::vector<WeightGroup> groups;
  for (const bool sparse : {false, true}) {
    WeightGroup sum;
    bool aliased = true;
    int64_t tensors = 0;
    for (const TensorGroup& group : unit.tensors) {
      if ((is_expert(group.role) && dims.ep > 1) == sparse) tensors += group.count;
    }
    const bool sharded = sparse ? dims.efsdp() > 1 : dims.fsdp() > 1;
    for (const TensorGroup& group : unit.tensors) {
      if ((is_expert(group.role) && dims.ep > 1) != sparse) continue;
      const int64_t full =
          group.count *
          local_elements(group.shape, compute_cuts_of(group.role, config.model, dims), dims, rank);
      const int64_t own =
          group.count *
          local_elements(group.shape, cuts_of(group.role, config.model, dims), dims, rank);
      const bool rounded = size_of(storage_dtype(group.role, config.model)) < size_of(master);
      if (sharded || group.compute != master || rounded) aliased = false;
      sum.gathered += full * size_of(group.compute);
      if (group.compute != master || rounded) sum.converted += own * size_of(group.compute);
      sum.gradients += full * size_of(group.compute);
      sum.summed += full * size_of(master);
      sum.shard += own * size_of(master);
      if (processes) {
        const int64_t others = (sparse ? dims.efsdp() : dims.fsdp()) - 1;
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
    if (tensors == 0) continue;
    if (aliased) sum.gathered = sum.converted = 0;
    groups.push_back(sum);
  }
  return groups;
}

MemoryPlan plan_memory(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                       const PipelineSchedule& schedule, const StageUnits& stage, int64_t rank,
                       bool processes) {
  MemoryPlan plan;
  int64_t constants = 0;
  std::vector<int64_t> gathered;
  for (const ModelUnit& unit : stage.units) {
    constants += unit.constants;
    for (const TensorGroup& group : unit.tensors) {
      plan.parameters +=
          group.count *
          local_elements(group.shape, cuts_of(group.role, config.model, dims), dims, rank);
    }
    gathered.push_back(0);
    for (const WeightGroup& group : weight_groups(config, dims, unit, rank, processes)) {
      gathered.back() += group.gathered;
    }
  }
  const int64_t element = size_of(master_dtype(config.model));
  const int64_t moments = moments_per_element(config.optimizer);
  constants *= size_of(config.model.moe_router_dtype);
  plan.weights = plan.parameters * element + constants;
  plan.gradients = plan.parameters * element;
  plan.moments = (plan.parameters * element + constants) * moments;
  if (reshard_policy(config, dims).keep_all_step) {
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
