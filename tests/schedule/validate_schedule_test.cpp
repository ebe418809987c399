#include "tessera/schedule/validate_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/schedule/make_schedule.h"
#include "tests/schedule/options.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using testing::options_1f1b;

size_t find(const PipelineSchedule& schedule, int64_t rank, const std::string& name) {
  const std::vector<Action>& actions = schedule.ranks[rank];
  const auto found = std::find_if(actions.begin(), actions.end(),
                                  [&](const Action& a) { return to_string(a) == name; });
  EXPECT_NE(found, actions.end()) << name;
  return found - actions.begin();
}

void swap(PipelineSchedule& s, int64_t rank, const std::string& a, const std::string& b) {
  const size_t i = find(s, rank, a);
  const size_t j = find(s, rank, b);
  std::swap(s.ranks[rank][i], s.ranks[rank][j]);
}

void erase(PipelineSchedule& s, int64_t rank, const std::string& name) {
  s.ranks[rank].erase(s.ranks[rank].begin() + find(s, rank, name));
}

std::string line_of(const PipelineSchedule& s, int64_t rank) {
  std::string text;
  for (const Action& a : s.ranks[rank]) text += (text.empty() ? "" : " ") + to_string(a);
  return text;
}

std::string problem(const PipelineSchedule& s) { return validate_schedule(s).value_or("valid"); }

class ValidateSchedule : public ::testing::Test {
 protected:
  PipelineSchedule s = make_schedule(options_1f1b(2, 2, 4));
};

TEST_F(ValidateSchedule, AcceptsWhatTheGeneratorMakes) { EXPECT_EQ(problem(s), "valid"); }

TEST_F(ValidateSchedule, MissingForward) {
  erase(s, 1, "FS3@1");
  erase(s, 0, "FR3@2");
  EXPECT_THAT(problem(s), HasSubstr("(F3@2): its input is not there"));
}

TEST_F(ValidateSchedule, MissingLastBackward) {
  erase(s, 0, "B3@0");
  EXPECT_EQ(problem(s), "rank 0: B3@0 is missing");
}

TEST_F(ValidateSchedule, ForwardTwice) {
  const size_t i = find(s, 0, "F1@0");
  s.ranks[0][i] = s.ranks[0][find(s, 0, "F0@0")];
  EXPECT_THAT(problem(s),
              HasSubstr("action " + std::to_string(i) + " (F0@0): stands in the list twice"));
}

TEST_F(ValidateSchedule, BackwardBeforeItsGradient) {
  swap(s, 0, "BR0@2", "B0@2");
  EXPECT_THAT(problem(s), HasSubstr("(B0@2): the gradient of its output is not there"));
}

TEST_F(ValidateSchedule, BackwardBeforeItsForward) {
  swap(s, 1, "F0@3", "B0@3");
  EXPECT_THAT(problem(s), HasSubstr("(B0@3): its forward has not run before it"));
}

TEST_F(ValidateSchedule, SendBeforeItWasMade) {
  swap(s, 0, "F1@0", "FS1@0");
  EXPECT_THAT(problem(s), HasSubstr("(FS1@0): sent before it was made"));
}

TEST_F(ValidateSchedule, SendMissing) {
  erase(s, 1, "BS3@1");
  EXPECT_EQ(problem(s), "rank 1: BS3@1 is missing");
}

TEST_F(ValidateSchedule, WrongPeer) {
  s.ranks[0][find(s, 0, "FS1@0")].peer = 0;
  EXPECT_THAT(problem(s), HasSubstr("(FS1@0): its peer is not rank 0"));
}

TEST_F(ValidateSchedule, MicroBatchesSwappedAtTwoReceives) {
  const size_t i = find(s, 1, "FR0@1");
  const size_t j = find(s, 1, "FR1@1");
  std::swap(s.ranks[1][i].tag, s.ranks[1][j].tag);
  EXPECT_THAT(problem(s), HasSubstr("(FR0@1): tag"));
  EXPECT_THAT(problem(s), HasSubstr("belongs to FS1@0, not to FS0@0"));
}

TEST_F(ValidateSchedule, TagUsedTwice) {
  s.ranks[0][find(s, 0, "FS1@0")].tag = s.ranks[0][find(s, 0, "FS0@0")].tag;
  EXPECT_THAT(problem(s), HasSubstr("(FS1@0): has the tag of FS0@0"));
}

TEST_F(ValidateSchedule, NotAChunkOfTheRank) {
  s.ranks[0][find(s, 0, "F0@2")].virtual_stage = 3;
  EXPECT_THAT(problem(s), HasSubstr("not a virtual stage of this rank"));
}

// Both neighbours send first: that only works while somebody keeps what was sent.
TEST_F(ValidateSchedule, DeadlockOfBlockingSends) {
  s = make_schedule(options_1f1b(2, 1, 3));
  ASSERT_EQ(line_of(s, 0), "F0@0 FS0@0 F1@0 FS1@0 BR0@0 B0@0 F2@0 FS2@0 BR1@0 B1@0 BR2@0 B2@0");
  ASSERT_EQ(line_of(s, 1), "FR0@1 F0@1 B0@1 FR1@1 BS0@1 F1@1 B1@1 FR2@1 BS1@1 F2@1 B2@1 BS2@1");
  swap(s, 1, "FR1@1", "BS0@1");
  const std::string text = problem(s);
  EXPECT_THAT(text, HasSubstr("deadlock with blocking sends"));
  EXPECT_THAT(text, HasSubstr("rank 0, action 3 (FS1@0) waits for rank 1"));
  EXPECT_THAT(text, HasSubstr("(BS0@1) waits for rank 0"));
}

// Each rank receives what the other one sends only after it.
TEST_F(ValidateSchedule, DeadlockOfBufferedSends) {
  s = make_schedule(options_1f1b(2, 1, 3));
  const size_t from = find(s, 0, "BR0@0");
  std::rotate(s.ranks[0].begin() + find(s, 0, "FS1@0"), s.ranks[0].begin() + from,
              s.ranks[0].begin() + from + 1);
  ASSERT_EQ(line_of(s, 0), "F0@0 FS0@0 F1@0 BR0@0 FS1@0 B0@0 F2@0 FS2@0 BR1@0 B1@0 BR2@0 B2@0");
  EXPECT_THAT(problem(s),
              HasSubstr("deadlock with buffered sends: rank 0, action 3 (BR0@0) waits"));
}

TEST_F(ValidateSchedule, TooManyLiveChunks) {
  s = make_schedule(testing::options_gpipe(2, 1, 4));
  s.options.kind = ScheduleKind::k1F1B;
  EXPECT_THAT(problem(s), HasSubstr("(F2@0): 3 live chunks, 2 are the bound"));
}

TEST_F(ValidateSchedule, OneListAStage) {
  s.ranks.pop_back();
  EXPECT_EQ(problem(s), "one list a stage expected");
}

}  // namespace
}  // namespace tessera
