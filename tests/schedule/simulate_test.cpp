#include "tessera/schedule/simulate.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/make_schedule.h"
#include "tests/schedule/options.h"

namespace tessera {
namespace {

using testing::options_1f1b;

ScheduleOptions with_overlap_p2p(ScheduleOptions options) {
  options.overlap_p2p = true;
  return options;
}

TEST(Simulate, TimesOfASmallStep) {
  const ScheduleOptions options = options_1f1b(2, 1, 2);
  const PipelineSchedule schedule = make_schedule(options);
  ASSERT_EQ(format_schedule(schedule, true),
            "rank 0: F0@0 F1@0 B0@0 B1@0\nrank 1: F0@1 B0@1 F1@1 B1@1\n");
  const Simulation run = simulate(schedule, equal_costs(options, 1, 2));
  EXPECT_EQ(run.makespan, 9);  // 2 x 3 and one more of each
  EXPECT_EQ(run.ranks[0].busy, 6);
  EXPECT_EQ(run.ranks[0].idle, 3);
  EXPECT_DOUBLE_EQ(run.idle_share(0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(run.idle_over_ideal(), 0.5);
  std::vector<double> starts;
  for (size_t i = 0; i < schedule.ranks[1].size(); ++i) {
    if (is_compute(schedule.ranks[1][i])) starts.push_back(run.ranks[1].actions[i].start);
  }
  EXPECT_EQ(starts, (std::vector<double>{1, 2, 4, 5}));
}

TEST(Simulate, KnownMakespansWithoutTransferCost) {
  const auto makespan = [](int64_t p, int64_t v, int64_t m) {
    const ScheduleOptions options = options_1f1b(p, v, m);
    return simulate(make_schedule(options), equal_costs(options, 1.0 / v, 2.0 / v)).makespan;
  };
  EXPECT_DOUBLE_EQ(makespan(2, 1, 4), 15);
  EXPECT_DOUBLE_EQ(makespan(2, 2, 4), 13.5);
  EXPECT_DOUBLE_EQ(makespan(4, 1, 8), 33);
  EXPECT_DOUBLE_EQ(makespan(4, 2, 8), 28.5);
}

// Transfers that take a tenth of a forward: overlapped they cost little; waited for in place,
// interleaving loses what it won.
TEST(Simulate, OverlappedTransfersHideBehindInterleavedChunks) {
  const auto makespan = [](int64_t v, bool overlap_p2p) {
    ScheduleOptions options = options_1f1b(4, v, 8);
    options.overlap_p2p = overlap_p2p;
    return simulate(make_schedule(options), equal_costs(options, 1.0 / v, 2.0 / v, 0.1)).makespan;
  };
  EXPECT_LE(makespan(1, true), 34.9 + 0.05);
  EXPECT_LE(makespan(2, true), 29.9 + 0.05);
  EXPECT_LE(makespan(1, false), 36.3 + 0.05);
  EXPECT_LE(makespan(2, false), 35.1 + 0.05);
  EXPECT_LT(makespan(2, true), makespan(1, true));
  EXPECT_GT(makespan(2, false), 1.15 * makespan(2, true));
}

TEST(Simulate, BlockingTransfersMakeBothEndsWait) {
  const ScheduleOptions options = options_1f1b(2, 1, 1);
  const Simulation blocking = simulate(make_schedule(options), equal_costs(options, 1, 2, 0.5));
  EXPECT_DOUBLE_EQ(blocking.makespan, 1 + 0.5 + 1 + 2 + 0.5 + 2);
  EXPECT_EQ(blocking.ranks[0].actions[1].end, 1.5);
  const Simulation posted =
      simulate(make_schedule(with_overlap_p2p(options)), equal_costs(options, 1, 2, 0.5));
  EXPECT_DOUBLE_EQ(posted.makespan, 7);
  EXPECT_EQ(posted.ranks[0].actions[1].end, 1.0);
  EXPECT_EQ(posted.ranks[1].actions[1].start, 1.5);
}

// 10 layers on 2 ranks with 2 chunks each. Transfers waited for in place cost uneven chunks time
// even where they take none: a rank stops for a message that it does not need yet.
TEST(Simulate, UnevenStages) {
  const auto run = [](const std::vector<int64_t>& layers, int64_t micro_batches, bool overlap_p2p) {
    ScheduleOptions options = options_1f1b(2, 2, micro_batches);
    options.overlap_p2p = overlap_p2p;
    return simulate(make_schedule(options), layer_costs(layers, 0, 0));
  };
  for (const int64_t micro_batches : {2, 8, 64}) {
    EXPECT_NEAR(run({2, 2, 5, 1}, micro_batches, true).idle_share(1), 4.0 / 7, 1e-9);
  }
  EXPECT_NEAR(run({3, 2, 2, 3}, 8, true).idle_share(0), 1.0 / 11, 1e-9);
  EXPECT_NEAR(run({3, 2, 2, 3}, 8, true).idle_share(1), 1.0 / 11, 1e-9);
  EXPECT_NEAR(run({3, 2, 2, 3}, 8, false).idle_share(1), 7.0 / 47, 1e-9);
}

TEST(Simulate, LayerCostsHoldEmbeddingAndHead) {
  const ChunkCosts costs = layer_costs({2, 3}, 0.5, 1.5);
  EXPECT_EQ(costs.forward, (std::vector<double>{2.5, 4.5}));
  EXPECT_EQ(costs.backward, (std::vector<double>{5, 9}));
}

TEST(Simulate, LiveSizesCountEachChunkByItsOwnSize) {
  const PipelineSchedule schedule = make_schedule(options_1f1b(2, 2, 2));
  ASSERT_EQ(format_schedule(schedule, true),
            "rank 0: F0@0 F1@0 F0@2 F1@2 B0@2 B1@2 B0@0 B1@0\n"
            "rank 1: F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 B0@1 B1@1\n");
  EXPECT_EQ(peak_live_size(schedule, {1, 10, 100, 1000}), (std::vector<double>{202, 1020}));
}

TEST(Simulate, RefusesWhatNeverEnds) {
  PipelineSchedule schedule = make_schedule(options_1f1b(2, 1, 2));
  std::swap(schedule.ranks[0][0], schedule.ranks[0].back());
  schedule.ranks[1].erase(schedule.ranks[1].begin());
  EXPECT_THROW(simulate(schedule, equal_costs(schedule.options, 1, 2)), InternalError);
}

}  // namespace
}  // namespace tessera
