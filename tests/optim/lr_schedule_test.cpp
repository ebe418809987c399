#include "tessera/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tessera/base/error.h"

namespace tessera {
namespace {

LrSchedulerConfig schedule(const std::string& type) {
  LrSchedulerConfig config;
  config.type = type;
  config.learning_rate = 1.0;
  config.warmup_steps = 4;
  return config;
}

TEST(LearningRate, WarmsUpLinearlyFromItsFirstValue) {
  LrSchedulerConfig config = schedule("ConstantWarmUpLR");
  config.warmup_lr_init = 0.2;
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 99), 1.0);
}

// The loader decides what a ratio means; the rate follows the steps alone.
TEST(LearningRate, StepsCountAndNotTheRatioThatTheyCameFrom) {
  LrSchedulerConfig config = schedule("ConstantWarmUpLR");
  config.warmup_ratio = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 4), 1.0);
}

TEST(LearningRate, LinearFallsToZeroAtTheEnd) {
  const LrSchedulerConfig config = schedule("LinearWithWarmUpLR");
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 12), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 20), 0.0);
}

TEST(LearningRate, CosineHalvesInTheMiddleAndEndsAtItsEnd) {
  LrSchedulerConfig config = schedule("CosineWithWarmUpLR");
  config.lr_end = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 12), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 20), 0.1);
  config.decay_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 10), 0.1);
}

TEST(LearningRate, RestartsBeginAtThePlateauAgain) {
  LrSchedulerConfig config = schedule("CosineWithRestartsAndWarmUpLR");
  config.num_cycles = 2.0;
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 4), 1.0);
  EXPECT_NEAR(learning_rate(config, 20, 8), 0.5, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 12), 1.0);
  config.lr_end = 0.3;  // also behind the last cycle, where the reference drops to zero
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 20), 0.3);
}

TEST(LearningRate, PolynomialFallsByItsPower) {
  LrSchedulerConfig config = schedule("PolynomialWithWarmUpLR");
  config.power = 2.0;
  config.lr_end = 0.2;
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 12), 0.2 + 0.8 * 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 21), 0.2);
}

TEST(LearningRate, StableThenDecaysAndHasNoHoleWithoutWarmUp) {
  LrSchedulerConfig config = schedule("WarmUpStableDecayLR");
  config.warmup_steps = 0;
  config.decay_start_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 15), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20, 20), 0.0);
}

TEST(LearningRate, CoolsDownInStages) {
  LrSchedulerConfig config = schedule("ConstantWithCoolDownLR");
  config.keep_steps = 6;
  config.decay_steps = 10;
  config.final_steps = 5;
  config.lr_end1 = 0.2;
  config.lr_end2 = 0.05;
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 15), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 20), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 25), 0.05);
}

TEST(LearningRate, AnnealsFromItsBaseRate) {
  LrSchedulerConfig config = schedule("CosineAnnealingLR");
  config.base_lr = 2.0;
  config.t_max = 10;
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 0), 2.0);
  EXPECT_NEAR(learning_rate(config, 100, 5), 1.0, 1e-15);
  config.type = "CosineAnnealingWarmRestarts";
  config.t_0 = 4;
  config.t_mult = 2;
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 4), 2.0);  // second cycle, 8 steps
  EXPECT_NEAR(learning_rate(config, 100, 8), 1.0, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 12), 2.0);  // third
}

TEST(LearningRate, RefusesAnUnknownSchedule) {
  EXPECT_THROW(learning_rate(schedule("CosineLR"), 10, 5), ConfigError);
}

}  // namespace
}  // namespace tessera
