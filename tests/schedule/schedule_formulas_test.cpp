#include "tessera/schedule/schedule_formulas.h"

#include <gtest/gtest.h>

#include "tests/schedule/options.h"

namespace tessera {
namespace {

using testing::options_1f1b;
using testing::options_gpipe;

std::vector<int64_t> live(const ScheduleOptions& options) {
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < options.stages; ++rank) {
    counts.push_back(peak_live_chunks(options, rank));
  }
  return counts;
}

using Counts = std::vector<int64_t>;

TEST(ScheduleFormulas, RoundsTakeAtLeastAStageEach) {
  EXPECT_EQ(round_sizes(options_1f1b(4, 2, 8)), (Counts{4, 4}));
  EXPECT_EQ(round_sizes(options_1f1b(4, 2, 10)), (Counts{5, 5}));
  EXPECT_EQ(round_sizes(options_1f1b(4, 2, 7)), (Counts{7}));
  EXPECT_EQ(round_sizes(options_1f1b(4, 2, 14)), (Counts{5, 5, 4}));
  EXPECT_EQ(round_sizes(options_1f1b(4, 2, 3)), (Counts{3}));
  EXPECT_EQ(round_sizes(options_1f1b(4, 1, 8)), (Counts{8}));
}

TEST(ScheduleFormulas, IdleOverIdealWithAtLeastOneMicroBatchAStage) {
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 1, 8)), 3.0 / 8);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 2, 8)), 3.0 / 16);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 4, 8)), 3.0 / 32);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(8, 4, 32)), 7.0 / 128);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 2, 6)), 1.0 / 4);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 2, 7)), 3.0 / 14);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 2, 10)), 3.0 / 20);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(2, 2, 5)), 1.0 / 10);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(1, 3, 5)), 0.0);
}

TEST(ScheduleFormulas, IdleOverIdealWithFewerMicroBatchesThanStages) {
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 1, 2)), 3.0 / 2);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(2, 2, 1)), 1.0);
  EXPECT_DOUBLE_EQ(idle_over_ideal(options_1f1b(4, 2, 2)), 5.0 / 4);
}

TEST(ScheduleFormulas, IdleShareIsOfTheWholeStep) {
  EXPECT_DOUBLE_EQ(idle_share(options_1f1b(4, 1, 8)), 3.0 / 11);
}

TEST(ScheduleFormulas, LiveChunks) {
  EXPECT_EQ(live(options_1f1b(4, 1, 8)), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(live(options_1f1b(4, 2, 8)), (Counts{11, 9, 7, 5}));
  EXPECT_EQ(live(options_1f1b(4, 1, 8, true)), (Counts{8, 6, 4, 2}));
  EXPECT_EQ(live(options_1f1b(4, 2, 8, true)), (Counts{12, 10, 8, 6}));
  EXPECT_EQ(live(options_1f1b(4, 1, 2)), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(live(options_gpipe(3, 1, 5)), (Counts{5, 5, 5}));
  EXPECT_EQ(live(options_1f1b(1, 1, 5)), (Counts{1}));
}

}  // namespace
}  // namespace tessera
