#include "tessera/schedule/weight_actions.h"

#include <gtest/gtest.h>

#include "tessera/schedule/validate_schedule.h"
#include "tests/schedule/options.h"

namespace tessera {
namespace {

using testing::options_1f1b;

std::string with_weights(const ScheduleOptions& options, const WeightActionOptions& weights) {
  PipelineSchedule schedule = make_schedule(options);
  add_weight_actions(schedule, weights);
  EXPECT_EQ(validate_schedule(schedule).value_or("valid"), "valid");
  return format_schedule(schedule);
}

TEST(WeightActions, GatheredAheadReducedAfterTheSend) {
  EXPECT_EQ(
      with_weights(options_1f1b(2, 2, 1), {}),
      "rank 0: U@0 U@2 F0@0 FS0@0 FR0@2 F0@2 FS0@2 BR0@2 B0@2 BS0@2 G@2 R@2 BR0@0 B0@0 G@0 R@0\n"
      "rank 1: U@1 FR0@1 U@3 F0@1 FS0@1 FR0@3 F0@3 B0@3 BS0@3 G@3 R@3 BR0@1 B0@1 BS0@1 G@1 R@1\n");
}

TEST(WeightActions, EveryComputationGathersForItself) {
  EXPECT_EQ(with_weights(options_1f1b(1, 1, 2), {.gather_once = false}),
            "rank 0: F0@0 B0@0 F1@0 B1@0 G@0\n");
}

TEST(WeightActions, ReducedBehindEveryBackward) {
  EXPECT_EQ(with_weights(options_1f1b(1, 1, 2, true), {.reduce_every_backward = true}),
            "rank 0: U@0 F0@0 [B0@0|F1@0] G@0 B1@0 G@0 R@0\n");
}

TEST(WeightActions, ValidForEveryShape) {
  for (const bool overlap_b_f : {false, true}) {
    for (int64_t stages = 1; stages <= 4; ++stages) {
      for (int64_t chunks = 1; chunks <= 3; ++chunks) {
        for (int64_t micro_batches = 1; micro_batches <= 6; ++micro_batches) {
          const ScheduleOptions options = options_1f1b(stages, chunks, micro_batches, overlap_b_f);
          with_weights(options, {});
          with_weights(options, {.gather_once = false, .reduce_every_backward = true});
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
