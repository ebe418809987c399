// Rules of the batch: how its samples are cut over ranks and micro-batches.

#include "tessera/layout/batch_plan.h"
#include "tessera/rules/checker.h"

namespace tessera {

void check_batch(Checker& check) {
  const TrainingConfig& t = check.config.training;
  if (!check.dims_ok || !check.good({"training.local_batch_size", "training.global_batch_size"})) {
    return;
  }
  const BatchPlan plan = make_batch_plan(t, check.dims);
  const int64_t smallest = plan.batch_ranks * plan.local_batch;
  const std::string product = "data parallel (" + std::to_string(plan.batch_ranks) +
                              ") x local_batch_size (" + std::to_string(plan.local_batch) + ")";
  if (plan.micro_batches == 0) {
    const int64_t local = t.global_batch_size / plan.batch_ranks;
    check.error("training.global_batch_size",
                "must be at least " + product + " = " + std::to_string(smallest),
                std::to_string(smallest) +
                    (local > 0 ? "; or local_batch_size " + std::to_string(local) : ""));
  } else if (plan.micro_batches > kMostMicroBatches) {
    check.error("training.global_batch_size",
                "makes " + std::to_string(plan.micro_batches) + " micro-batches of " + product +
                    " = " + std::to_string(smallest) + "; at most " +
                    std::to_string(kMostMicroBatches) + " are run in a step",
                std::to_string(kMostMicroBatches * smallest));
  } else if (plan.effective_batch != plan.asked_batch) {
    check.warning("training.global_batch_size",
                  "is no multiple of " + product + ": the effective batch is " +
                      std::to_string(plan.effective_batch) + " = " + std::to_string(smallest) +
                      " x " + std::to_string(plan.micro_batches) +
                      " micro-batches, and every count uses it",
                  std::to_string(plan.effective_batch) + ", " +
                      std::to_string(plan.effective_batch + smallest));
  }
}

}  // namespace tessera
