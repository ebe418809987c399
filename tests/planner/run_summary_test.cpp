#include "tessera/planner/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/config/load.h"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(RunSummary, SixLinesWithAndWithoutAMachineFile) {
  const ConfigResult read = load_config(std::string(TESSERA_SOURCE_DIR) + "/configs/hsdp.yaml", {});
  ASSERT_TRUE(read.ok());
  Plan plan = make_plan(read.config, 16, false, DataPlan{});
  const std::string without = run_summary(plan, 0);
  EXPECT_EQ(std::ranges::count(without, '\n'), 6);
  EXPECT_THAT(without, HasSubstr("16 ranks, dp_replicate 2, dp_shard 8"));
  EXPECT_THAT(without, HasSubstr("tessera calibrate"));
  SecondsPlan seconds;
  seconds.step = 0.5;
  seconds.run = 7200;
  seconds.tokens_per_second = 1000;
  plan.seconds = seconds;
  const std::string with = run_summary(plan, 0);
  EXPECT_EQ(std::ranges::count(with, '\n'), 6);
  EXPECT_THAT(with, HasSubstr("500 ms predicted: 1000 tokens a second"));
  EXPECT_THAT(with, HasSubstr("steps in 2 h 0 min: about 1970-01-01"));
}

}  // namespace
}  // namespace tessera
