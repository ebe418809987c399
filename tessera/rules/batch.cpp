// Rules of the batch: how its samples are cut over ranks and micro-batches.

#include "tessera/layout/batch_plan.h"
#include "tessera/rules/checker.h"

namespace tessera {

namespace {

constexpr std::string_view kRamp = "training.rampup_batch_size";

// Every batch on the way must be whole micro-batches of all ranks. False: it is not.
bool check_ramp(Checker& check, int64_t smallest, const std::string& product) {
  const TrainingConfig& t = check.config.training;
  const std::vector<int64_t>& ramp = *t.rampup_batch_size;
  const std::string of_ranks = product + " = " + std::to_string(smallest);
  const auto error = [&](const std::string& rule, const std::string& nearest = "") {
    check.error(kRamp, rule, nearest);
    return false;
  };
  if (ramp.size() != 3) return error("must be three ints: first batch, increment, samples");
  const int64_t first = ramp[0], increment = ramp[1], samples = ramp[2];
  if (first < 1) return error("its first batch must be at least 1");
  if (increment < 1) return error("its increment must be at least 1");
  if (samples < 0) return error("its samples must be at least 0");
  if (first > t.global_batch_size) {
    return error("starts above global_batch_size (" + std::to_string(t.global_batch_size) + ")");
  }
  if ((t.global_batch_size - first) % increment != 0) {
    return error("does not arrive at global_batch_size (" + std::to_string(t.global_batch_size) +
                 ") in steps of " + std::to_string(increment));
  }
  if (t.global_batch_size % smallest != 0) {
    check.error("training.global_batch_size",
                "must be a multiple of " + of_ranks + " with rampup_batch_size");
    return false;
  }
  if (first % smallest != 0) return error("its first batch must be a multiple of " + of_ranks);
  if (first < t.global_batch_size && increment % smallest != 0) {
    return error("its increment must be a multiple of " + of_ranks);
  }
  return true;
}

}  // namespace

void check_batch(Checker& check) {
  const TrainingConfig& t = check.config.training;
  if (!check.dims_ok || !check.good({"training.local_batch_size", "training.global_batch_size"})) {
    return;
  }
  const BatchPlan plan = make_batch_plan(check.config, check.dims);
  const int64_t smallest = plan.batch_ranks * plan.local_batch;
  const std::string product = "data parallel (" + std::to_string(plan.batch_ranks) +
                              ") x local_batch_size (" + std::to_string(plan.local_batch) + ")";
  if (check.config.train_dataset.balance_enabled && plan.batch_ranks == 1) {
    check.no_effect("train_dataset.balance_enabled");
  }
  if (t.max_consecutive_skipped_steps > 0 && !t.use_skip_step_on_nan) {
    check.no_effect("training.max_consecutive_skipped_steps");
  }
  // Where the batch is kept the last places of an update may be padding, in whole micro-batches.
  const bool kept = keeps_batch(check.config);
  if (kept && t.global_batch_size % plan.local_batch != 0) {
    check.error("training.global_batch_size",
                "must be a multiple of local_batch_size (" + std::to_string(plan.local_batch) +
                    ") with elastic.layouts",
                std::to_string((t.global_batch_size / plan.local_batch + 1) * plan.local_batch));
    return;
  }
  if (t.rampup_batch_size &&
      !(kept ? check_ramp(check, plan.local_batch,
                          "local_batch_size (" + std::to_string(plan.local_batch) + ")")
             : check_ramp(check, smallest, product))) {
    return;
  }
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
