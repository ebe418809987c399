// Steps whose norm leaps, and copies that differ.

#include "tessera/train/spikes.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>

#include "tessera/base/error.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/load.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/manifest.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/support/case_path.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(SpikeWatch, JudgesByTheMedianOfAFullWindow) {
  SpikeConfig config;
  config.factor = 3;
  config.window = 4;
  SpikeWatch watch(config);
  for (const double norm : {1.0, 2.0, 50.0}) {
    EXPECT_FALSE(watch.is_spike(1e9));
    watch.add(norm);
  }
  watch.add(4.0);
  EXPECT_EQ(watch.median(), 2.0);
  EXPECT_FALSE(watch.is_spike(6.0));
  EXPECT_TRUE(watch.is_spike(6.1));
  watch.add(4.0);  // 1 is forgotten
  EXPECT_EQ(watch.median(), 4.0);
  EXPECT_THAT(watch.norms(), ElementsAre(2.0, 50.0, 4.0, 4.0));
  EXPECT_EQ(SpikeWatch(config, watch.norms()).median(), 4.0);
}

TEST(SpikeWatch, WithoutAFactorNothingIsASpike) {
  SpikeWatch watch(SpikeConfig{});
  for (int i = 0; i < 1000; ++i) watch.add(1.0);
  EXPECT_FALSE(watch.is_spike(1e300));
  EXPECT_TRUE(watch.norms().empty());
}

class Spikes : public testing::Test {
 protected:
  Config load(const std::vector<std::string>& more) {
    std::vector<std::string> set = {"training.local_batch_size=4",
                                    "training.steps=12",
                                    "elastic.spike.factor=20",
                                    "elastic.spike.window=4",
                                    "checkpoint.enable_save=true",
                                    "checkpoint.save_interleaved_steps=3",
                                    "output_dir=" + folder_.path().string()};
    set.insert(set.end(), more.begin(), more.end());
    ConfigResult file = load_config((case_path("llama_sgd64") / "config.yaml").string(), set);
    if (!file.ok()) throw ConfigError(format_issues(file.issues));
    return file.config;
  }

  // The losses by step on two ranks; the gradients of step 8 are a thousand times too large when it
  // runs for the first time.
  std::map<int64_t, double> run(const std::vector<std::string>& more, bool always = false) {
    const Config config = load(more);
    TrainerOptions options;
    options.source = open_training_data(config);
    std::map<int64_t, double> losses;
    std::array<int, 2> times{};
    options.on_gradients = [&](int64_t step, const ParamTable& table, const DeviceMesh& mesh) {
      if (step != 8) return;
      if (times[static_cast<size_t>(mesh.rank())]++ > 0 && !always) return;
      for (const auto& param : table.params()) param->grad.mul_(1000);
    };
    options.on_step = [&](const StepMetrics& metrics, const ParamTable&, const DeviceMesh& mesh) {
      if (mesh.rank() == 0) losses[metrics.step] = metrics.loss;
    };
    run_ranks(2, [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
    return losses;
  }

  Manifest newest() const {
    const auto root = folder_.path() / "checkpoint";
    return read_manifest(root / iteration_name(read_pointer(root).value()));
  }

  TempDir folder_;
};

TEST_F(Spikes, ASkippedOneLearnsNothingAndItsSamplesAreWrittenDown) {
  testing::internal::CaptureStderr();
  const auto skipped = run({"elastic.spike.action=skip"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("step 8 is skipped: gradient norm"));
  const RunPosition position = newest().position;
  EXPECT_THAT(position.skipped_ranges, ElementsAre(Pair(56, 8)));
  EXPECT_EQ(position.skipped, 1);
  EXPECT_EQ(position.updates, 11);
  EXPECT_EQ(position.norms.size(), 4u);
  EXPECT_EQ(skipped.size(), 12u);
}

// What follows is the run that never held the samples: from the skipped step on it is the run that
// skipped them, one step earlier.
TEST_F(Spikes, ARollbackLeavesTheSamplesOut) {
  const auto skipped = run({"elastic.spike.action=skip"});
  std::filesystem::remove_all(folder_.path() / "checkpoint");
  testing::internal::CaptureStderr();
  const auto back = run({"elastic.spike.action=rollback"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the run goes back to step 6 and leaves out the 8 samples from place 56"));
  for (int64_t step = 1; step < 8; ++step) EXPECT_EQ(back.at(step), skipped.at(step)) << step;
  for (int64_t step = 8; step < 12; ++step) EXPECT_EQ(back.at(step), skipped.at(step + 1)) << step;
  const RunPosition position = newest().position;
  EXPECT_THAT(position.left_out, ElementsAre(Pair(56, 8)));
  EXPECT_EQ(position.samples, 12 * 8);
  EXPECT_EQ(position.place, 13 * 8);
  EXPECT_EQ(position.updates, 12);
}

TEST_F(Spikes, WhatLeapsAgainAndAgainEndsTheRun) {
  try {
    run({"elastic.spike.action=rollback"}, /*always=*/true);
    FAIL() << "went on";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(), HasSubstr("went back to step 6 3 times already"));
  }
}

TEST_F(Spikes, CopiesThatDifferAreNamed) {
  const Config config = load({"monitor.replica_check_interval=4", "elastic.spike.factor=0",
                              "checkpoint.enable_save=false"});
  TrainerOptions options;
  options.source = open_training_data(config);
  options.on_step = [&](const StepMetrics& metrics, const ParamTable& table,
                        const DeviceMesh& mesh) {
    if (metrics.step == 5 && mesh.rank() == 1) table.params()[3]->value.view(-1)[0] += 1e-9;
  };
  std::atomic<int> threw{0};
  run_ranks(2, [&](const ProcessGroup& world) {
    try {
      Trainer(config, world, options).run();
    } catch (const CommError& error) {
      ++threw;
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("after step 8 the copies of "), HasSubstr("differ (ranks 1)")));
    }
  });
  EXPECT_EQ(threw, 2);
}

}  // namespace
}  // namespace tessera::test
