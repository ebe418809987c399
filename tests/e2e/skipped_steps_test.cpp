// training.use_skip_step_on_nan: a step that is not finite updates nothing, on all ranks alike, and
// the run goes on as if it had not been, but for its samples.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/storage/iteration_folder.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;
using testing::HasSubstr;

const Set kSkipping = {"training.use_skip_step_on_nan=true", "training.steps=8"};

// A gradient that is not a number on one rank, in the given steps.
TrainerOptions broken_in(std::vector<int64_t> steps, int rank) {
  TrainerOptions options;
  options.on_gradients = [steps = std::move(steps), rank](int64_t step, const ParamTable& table,
                                                          const DeviceMesh& mesh) {
    if (mesh.rank() != rank || std::ranges::find(steps, step) == steps.end()) return;
    for (const auto& param : table.params()) {
      if (param->primary && param->grad.defined() && param->grad.numel() > 0) {
        param->grad.view(-1)[0] = std::numeric_limits<double>::quiet_NaN();
        return;
      }
    }
  };
  return options;
}

const std::vector<Layout> kLayouts = {
    {"one", 1, {local_batch(4)}},
    {"shard2_tp2", 4, {shard(2), tp(2), local_batch(2)}},
    {"pp2_cp2",
     4,
     {"parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_layers_per_stage=auto",
      "parallelism.context_parallel=2", "model.use_attn_mask_compression=true", local_batch(2)}},
};

class SkippedSteps : public testing::TestWithParam<Layout> {};

TEST_P(SkippedSteps, UpdateNothingAndCount) {
  const Layout& layout = GetParam();
  const Set cosine = {"lr_scheduler={type: CosineWithWarmUpLR, learning_rate: 1e-3}"};
  const Config config = load_case("llama_adamw64", layout.set + kSkipping + cosine, layout.ranks);
  const auto whole = run_until(config, layout.ranks, 8);
  const auto run =
      run_until(config, layout.ranks, 8, broken_in({3, 4, 6}, static_cast<int>(layout.ranks) - 1));
  ASSERT_EQ(run->steps.size(), 8);
  const std::vector<int64_t> in_row = {0, 0, 1, 2, 0, 1, 0, 0};
  const std::vector<int64_t> updates_before = {0, 1, 2, 2, 2, 3, 3, 4};
  for (size_t i = 0; i < 8; ++i) {
    const StepMetrics& step = run->steps[i];
    EXPECT_EQ(step.skipped_in_row, in_row[i]) << i;
    EXPECT_EQ(step.updated, in_row[i] == 0) << i;
    EXPECT_EQ(step.samples, whole->steps[i].samples) << "the data go on";
    // Rates go by updates: those of the run without a skip, later.
    EXPECT_EQ(step.lr, whole->steps[static_cast<size_t>(updates_before[i])].lr) << i;
    EXPECT_EQ(std::isfinite(step.grad_norm), in_row[i] == 0);
    EXPECT_TRUE(std::isfinite(step.loss)) << "only the gradient was broken";
  }
  EXPECT_EQ(run->steps[2].loss, whole->steps[2].loss) << "before the update all is the same";
  EXPECT_NE(run->steps[3].loss, whole->steps[3].loss);
  for (const auto& [name, value] : run->values) {
    EXPECT_TRUE(at::isfinite(value).all().item<bool>()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SkippedSteps, testing::ValuesIn(kLayouts), layout_name);

// A weight that no step moved is bitwise what it was.
TEST(SkippedStep, LeavesWeightsAndMoments) {
  const Config config = load_case("llama_adamw64", kSkipping, 1);
  const auto before = run_until(config, 1, 2);
  const auto after = run_until(config, 1, 3, broken_in({3}, 0));
  for (const auto& [name, value] : before->values) {
    EXPECT_TRUE(at::equal(value, after->values.at(name))) << name;
  }
}

TEST(SkippedStep, WithoutTheKeyTheRunEnds) {
  const Config config = load_case("llama_adamw64", {"training.steps=8"}, 1);
  EXPECT_THROW(run_until(config, 1, 8, broken_in({2}, 0)), NonFiniteError);
}

TEST(SkippedStep, TooManyInARowEndTheRun) {
  const Config config =
      load_case("llama_adamw64", kSkipping + Set{"training.max_consecutive_skipped_steps=2"}, 1);
  EXPECT_NO_THROW(run_until(config, 1, 8, broken_in({2, 4, 6}, 0)));
  try {
    run_until(config, 1, 8, broken_in({2, 4, 5, 6}, 0));
    FAIL() << "two in a row";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 5 is skipped"));
    EXPECT_THAT(error.what(), HasSubstr("2 in a row"));
    EXPECT_THAT(error.what(), HasSubstr("max_consecutive_skipped_steps = 2"));
  }
}

// Saved after the first of two, resumed before the second.
TEST(SkippedStep, TheCountSurvivesAResume) {
  const TempDir folder;
  const Set set = kSkipping + Set{"training.max_consecutive_skipped_steps=2",
                                  "checkpoint.enable_save=true", "checkpoint.no_load_optim=false",
                                  "checkpoint.save_path='" + folder.path().string() + "'"};
  const Config first = load_case("llama_adamw64", set, 1);
  const auto begun = run_until(first, 1, 4, broken_in({2, 4}, 0));
  const Config second = load_case(
      "llama_adamw64", set + Set{"checkpoint.load_path='" + folder.path().string() + "'"}, 1);
  EXPECT_THROW(run_until(second, 1, 8, broken_in({5}, 0)), NonFiniteError);
  const auto rest = run_until(second, 1, 8, broken_in({6}, 0));
  EXPECT_EQ(rest->steps.front().step, 5);
  EXPECT_EQ(rest->steps[1].skipped, 3) << "of the whole run";
  EXPECT_EQ(rest->steps[1].skipped_in_row, 1);
}

}  // namespace
}  // namespace tessera::test
