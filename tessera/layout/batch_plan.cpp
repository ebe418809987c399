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

}  // namespace tessera
