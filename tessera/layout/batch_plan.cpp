#include "tessera/layout/batch_plan.h"

namespace tessera {

BatchPlan make_batch_plan(const TrainingConfig& training, const ParallelDims& dims) {
  BatchPlan plan;
  plan.batch_ranks = dims.batch();
  plan.local_batch = training.local_batch_size;
  plan.asked_batch = training.global_batch_size;
  plan.micro_batches = plan.asked_batch / (plan.batch_ranks * plan.local_batch);
  plan.effective_batch = plan.batch_ranks * plan.local_batch * plan.micro_batches;
  return plan;
}

BatchPlan with_batch(const BatchPlan& plan, int64_t batch) {
  BatchPlan other = plan;
  other.asked_batch = batch;
  other.micro_batches = batch / (plan.batch_ranks * plan.local_batch);
  other.effective_batch = plan.batch_ranks * plan.local_batch * other.micro_batches;
  return other;
}

BatchGrowth batch_growth(const TrainingConfig& training, const BatchPlan& plan) {
  if (!training.rampup_batch_size) return BatchGrowth::fixed(plan.effective_batch);
  const std::vector<int64_t>& ramp = *training.rampup_batch_size;
  return {ramp.at(0), ramp.at(1), ramp.at(2), plan.effective_batch};
}

}  // namespace tessera
