#include "tessera/layout/batch_plan.h"

namespace tessera {
namespace {

int64_t rounded_up(int64_t samples, int64_t a_turn) { return (samples + a_turn - 1) / a_turn; }

}  // namespace

bool keeps_batch(const Config& config) { return !config.elastic.layouts.empty(); }

BatchPlan make_batch_plan(const Config& config, const ParallelDims& dims) {
  BatchPlan plan;
  plan.batch_ranks = dims.batch();
  plan.local_batch = config.training.local_batch_size;
  plan.asked_batch = config.training.global_batch_size;
  const int64_t a_turn = plan.batch_ranks * plan.local_batch;
  if (keeps_batch(config)) return with_batch(plan, plan.asked_batch);
  plan.micro_batches = plan.asked_batch / a_turn;
  plan.effective_batch = a_turn * plan.micro_batches;
  return plan;
}

BatchPlan with_batch(const BatchPlan& plan, int64_t batch) {
  BatchPlan other = plan;
  other.asked_batch = batch;
  other.micro_batches = rounded_up(batch, plan.batch_ranks * plan.local_batch);
  other.effective_batch = batch;
  return other;
}

BatchGrowth batch_growth(const TrainingConfig& training, const BatchPlan& plan) {
  if (!training.rampup_batch_size) return BatchGrowth::fixed(plan.effective_batch);
  const std::vector<int64_t>& ramp = *training.rampup_batch_size;
  return {ramp.at(0), ramp.at(1), ramp.at(2), plan.effective_batch};
}

}  // namespace tessera
