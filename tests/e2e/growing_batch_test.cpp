// training.rampup_batch_size: which samples every update holds, on every layout and resumed at any
// place, and what the plan says of it.

#include <gtest/gtest.h>

#include <mutex>

#include "tessera/planner/plan.h"
#include "tessera/train/open_training_data.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

// [8, 8, 64] up to 24: two levels of 32 samples. Four updates of 8 (samples 0 to 31), two of 16 (32
// to 63), then 24: of the 80 samples of a pass 16 are left, too few, so the next pass begins.
const Set kRamp = {"training.global_batch_size=24", "training.rampup_batch_size=[8, 8, 64]",
                   "training.steps=8", local_batch(1)};
const std::vector<int64_t> kBatches = {8, 8, 8, 8, 16, 16, 24, 24};
// First sample of every update, written down by hand; the last two are of the second pass.
const std::vector<int64_t> kFirst = {0, 8, 16, 24, 32, 48, 0, 24};

std::vector<int64_t> ids_by_hand(size_t begin, size_t end) {
  std::vector<int64_t> ids;
  for (size_t step = begin; step < end; ++step) {
    for (int64_t i = 0; i < kBatches[step]; ++i) ids.push_back(kFirst[step] + i);
  }
  std::ranges::sort(ids);
  return ids;
}

// The first 80 samples of the data, which remember what was read.
class Recorded : public SampleSource {
 public:
  explicit Recorded(const Config& config) : source_(open_training_data(config)) {}
  int64_t size() const override { return 80; }
  int64_t sample_length() const override { return source_->sample_length(); }
  int64_t read(int64_t index, std::span<int64_t> tokens) const override {
    const std::lock_guard lock(mutex_);
    ids_.push_back(index);
    return source_->read(index, tokens);
  }
  std::vector<int64_t> ids() const {
    std::vector<int64_t> sorted = ids_;
    std::ranges::sort(sorted);
    return sorted;
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> ids_;
};

struct Trained {
  std::unique_ptr<RunRecord> record;
  std::vector<int64_t> ids;
};

Trained train_to(const Set& set, int64_t ranks, int64_t last) {
  const Config config = load_case("llama_adamw64", kRamp + set, ranks);
  TrainerOptions options;
  const auto source = std::make_shared<const Recorded>(config);
  options.source = source;
  Trained result{run_until(config, ranks, last, options), {}};
  result.ids = source->ids();
  return result;
}

std::vector<int64_t> batches_of(const RunRecord& record) {
  std::vector<int64_t> batches;
  for (const StepMetrics& step : record.steps) batches.push_back(step.batch);
  return batches;
}

const std::vector<Layout> kLayouts = {
    {"one", 1, {}},
    {"shard8", 8, {shard(8)}},
    {"pp2v2_tp2",
     4,
     {"parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_interleave_num=2",
      "parallelism.pipeline_parallel_layers_per_stage=auto", tp(2)}},
    {"cp2_shard2",
     4,
     {"parallelism.context_parallel=2", "model.use_attn_mask_compression=true", shard(2)}},
};

class GrowingBatch : public testing::TestWithParam<Layout> {};

TEST_P(GrowingBatch, HoldsTheSamplesOfTheListAndTrainsAlike) {
  static const Trained alone = train_to({}, 1, 8);
  const Layout& layout = GetParam();
  const Trained whole = train_to(layout.set, layout.ranks, 8);
  EXPECT_EQ(batches_of(*whole.record), kBatches);
  EXPECT_EQ(whole.record->steps.back().samples, 112);
  if (layout.name.starts_with("cp")) return;  // each of its samples is read by two ranks
  if (layout.name != "pp2v2_tp2") {
    EXPECT_EQ(whole.ids, ids_by_hand(0, 8));
  }
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(whole.record->steps[i].loss, alone.record->steps[i].loss, 1e-10) << i;
    EXPECT_NEAR(whole.record->steps[i].grad_norm, alone.record->steps[i].grad_norm, 1e-9) << i;
  }
}

// Ended in the middle of a level, five updates done, and gone on with as if it had not been.
TEST_P(GrowingBatch, GoesOnInTheMiddleOfALevel) {
  const Layout& layout = GetParam();
  const TempDir folder;
  const Set saving =
      layout.set + Set{"checkpoint.enable_save=true", "checkpoint.no_load_optim=false",
                       "checkpoint.save_path='" + folder.path().string() + "'"};
  const Trained whole = train_to(layout.set, layout.ranks, 8);
  train_to(saving, layout.ranks, 5);
  const Trained rest = train_to(
      saving + Set{"checkpoint.load_path='" + folder.path().string() + "'"}, layout.ranks, 8);
  EXPECT_EQ(batches_of(*rest.record), (std::vector<int64_t>{16, 24, 24}));
  if (layout.name == "one" || layout.name == "shard8") {
    EXPECT_EQ(rest.ids, ids_by_hand(5, 8));
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rest.record->steps[i].loss, whole.record->steps[5 + i].loss);
    EXPECT_EQ(rest.record->steps[i].lr, whole.record->steps[5 + i].lr);
    EXPECT_EQ(rest.record->steps[i].samples, whole.record->steps[5 + i].samples);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, GrowingBatch, testing::ValuesIn(kLayouts), layout_name);

TEST(GrowingBatchPlan, HasEveryLevel) {
  const Config config = load_case("llama_adamw64", kRamp + kLayouts[2].set, 4);
  const Plan plan = make_plan(config, 4);
  ASSERT_EQ(plan.levels.size(), 3);
  const std::vector<BatchLevel> expected = {{8, 0, 4, 32}, {16, 4, 2, 64}, {24, 6, 2, 112}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.levels[i].level, expected[i]);
    EXPECT_EQ(plan.levels[i].micro_batches, expected[i].batch);
    EXPECT_GT(plan.levels[i].peak_memory, 0);
  }
  EXPECT_GT(plan.levels[0].idle_over_ideal, plan.levels[2].idle_over_ideal);
}

}  // namespace
}  // namespace tessera::test
