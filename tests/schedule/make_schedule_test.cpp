#include "tessera/schedule/make_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/schedule/transfers.h"
#include "tests/schedule/options.h"
#include "tests/schedule/worked_orders.h"

namespace tessera {
namespace {

using testing::options_1f1b;
using testing::options_gpipe;

std::string line(const std::vector<Action>& actions, bool compute_only = false) {
  std::string text;
  for (const Action& a : actions) {
    if (compute_only && !is_compute(a)) continue;
    text += (text.empty() ? "" : " ") + to_string(a);
  }
  return text;
}

void expect_order(const ScheduleOptions& options, const std::vector<std::string>& expected,
                  bool compute_only) {
  const PipelineSchedule schedule = make_schedule(options);
  ASSERT_EQ(schedule.ranks.size(), expected.size());
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_EQ(line(schedule.ranks[rank], compute_only), expected[rank]) << "rank " << rank;
  }
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(PipelineSchedule, InterleavedOrdersAreTheKnownOnes) {
  expect_order(options_1f1b(2, 2, 4), testing::kInterleaved2x2x4, true);
  expect_order(options_1f1b(4, 2, 8), testing::kInterleaved4x2x8, true);
}

TEST(PipelineSchedule, TransfersStandWhereTheKnownOrdersHaveThem) {
  expect_order(options_1f1b(2, 2, 4), testing::kInterleaved2x2x4Transfers, false);
  expect_order(options_1f1b(4, 2, 8), testing::kInterleaved4x2x8Transfers, false);
}

TEST(PipelineSchedule, OverlappedPairsAreTheKnownOnes) {
  expect_order(options_1f1b(2, 2, 4, true), testing::kOverlapped2x2x4, true);
  expect_order(options_1f1b(4, 2, 8, true), testing::kOverlapped4x2x8, true);
}

// The known list of plain 1F1B holds some sends back; computations and messages are the same.
TEST(PipelineSchedule, OneChunkARankIsPlain1F1B) {
  const PipelineSchedule schedule = make_schedule(options_1f1b(4, 1, 6));
  for (int64_t rank = 0; rank < 4; ++rank) {
    std::vector<std::string> expected = words(testing::kOneChunk4x1x6Transfers[rank]);
    std::vector<std::string> actual = words(line(schedule.ranks[rank]));
    const auto is_message = [](const std::string& word) { return std::isalpha(word[1]) != 0; };
    std::vector<std::string> computed;
    std::remove_copy_if(expected.begin(), expected.end(), std::back_inserter(computed), is_message);
    EXPECT_EQ(words(line(schedule.ranks[rank], true)), computed) << "rank " << rank;
    std::sort(expected.begin(), expected.end());
    std::sort(actual.begin(), actual.end());
    EXPECT_EQ(actual, expected) << "rank " << rank;
  }
}

TEST(PipelineSchedule, OneStageIsAScheduleToo) {
  expect_order(options_1f1b(1, 1, 3), {"F0@0 B0@0 F1@0 B1@0 F2@0 B2@0"}, false);
  expect_order(options_1f1b(1, 1, 3, true), {"F0@0 [B0@0|F1@0] [B1@0|F2@0] B2@0"}, false);
  expect_order(options_1f1b(1, 2, 2), {"F0@0 F0@1 B0@1 F1@0 B0@0 F1@1 B1@1 B1@0"}, false);
}

TEST(PipelineSchedule, FewerMicroBatchesThanStages) {
  expect_order(
      options_1f1b(3, 1, 1),
      {"F0@0 FS0@0 BR0@0 B0@0", "FR0@1 F0@1 FS0@1 BR0@1 B0@1 BS0@1", "FR0@2 F0@2 B0@2 BS0@2"},
      false);
  expect_order(options_1f1b(2, 2, 1), {"F0@0 F0@2 B0@2 B0@0", "F0@1 F0@3 B0@3 B0@1"}, true);
}

TEST(PipelineSchedule, GPipeRunsAllForwardsFirst) {
  expect_order(options_gpipe(2, 1, 3),
               {"F0@0 F1@0 F2@0 B0@0 B1@0 B2@0", "F0@1 F1@1 F2@1 B0@1 B1@1 B2@1"}, true);
}

TEST(PipelineSchedule, TransfersCarryPeerAndOneTagAMessage) {
  const PipelineSchedule schedule = make_schedule(options_1f1b(3, 2, 4));
  std::set<int64_t> sent;
  std::set<int64_t> received;
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (const Action& a : schedule.ranks[rank]) {
      if (!is_transfer(a)) continue;
      const bool down = a.kind == ActionKind::kSendForward || a.kind == ActionKind::kRecvBackward;
      EXPECT_EQ(a.peer, (rank + (down ? 1 : 2)) % 3) << to_string(a);
      EXPECT_TRUE((is_send(a) ? sent : received).insert(a.tag).second) << to_string(a);
    }
  }
  EXPECT_EQ(sent, received);
  // Every micro-batch crosses every boundary between virtual stages once in each direction.
  EXPECT_EQ(sent.size(), 2 * 4 * (3 * 2 - 1));
  EXPECT_EQ(*sent.rbegin(), tag_count(schedule.options) - 1);
}

TEST(PipelineSchedule, RefusesOptionsThatContradictEachOther) {
  EXPECT_THROW(make_schedule(options_1f1b(0, 1, 1)), InternalError);
  EXPECT_THROW(make_schedule(options_1f1b(2, 1, 0)), InternalError);
  ScheduleOptions plain = options_1f1b(2, 2, 2);
  plain.kind = ScheduleKind::k1F1B;
  EXPECT_THROW(make_schedule(plain), InternalError);
  ScheduleOptions gpipe = options_gpipe(2, 1, 2);
  gpipe.overlap_b_f = true;
  EXPECT_THROW(make_schedule(gpipe), InternalError);
}

TEST(PipelineSchedule, FormatsOneLineARank) {
  const PipelineSchedule schedule = make_schedule(options_1f1b(2, 1, 1));
  EXPECT_EQ(format_schedule(schedule),
            "rank 0: F0@0 FS0@0 BR0@0 B0@0\nrank 1: FR0@1 F0@1 B0@1 BS0@1\n");
  EXPECT_EQ(format_schedule(schedule, true), "rank 0: F0@0 B0@0\nrank 1: F0@1 B0@1\n");
}

}  // namespace
}  // namespace tessera
