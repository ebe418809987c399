#include "tessera/launcher/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Life = RankState::Life;

RankState state(Life life, int number, std::vector<RankWait> waits = {}) {
  RankState result;
  result.life = life;
  result.number = number;
  result.step = 7;
  result.waits = std::move(waits);
  return result;
}

TEST(Blame, TheChainLeadsToTheOneThatWaitsForNobody) {
  const RankStates states = {{0, state(Life::kRunning, 0, {{1, "recv"}})},
                             {1, state(Life::kEnded, 3, {{3, "recv in group pp"}})},
                             {2, state(Life::kStopped, 0, {{0, "all_reduce"}})},
                             {3, state(Life::kRunning, 0, {{2, "all_reduce in group tp"}})}};
  const Blame blame = follow_waits(states, 1);
  EXPECT_EQ(blame.rank, 2);  // it is stopped: what it waited for does not matter
  EXPECT_TRUE(blame.known);
  EXPECT_FALSE(blame.circle);
  EXPECT_THAT(blame.chain, ElementsAre(1, 3, 2));
  const std::string others = others_text(states, 2);
  EXPECT_THAT(others, HasSubstr("\nrank 3 in step 7 waited for rank 2: all_reduce in group tp"));
  EXPECT_THAT(others, Not(HasSubstr("\nrank 2")));
  EXPECT_THAT(life_text(states.at(2)), HasSubstr("is stopped"));
}

TEST(Blame, TheOldestWaitCounts) {
  const RankStates states = {
      {0, state(Life::kRunning, 0, {{2, "recv"}, {1, "all_reduce"}})},
      {1, state(Life::kRunning, 0)},
      {2, state(Life::kRunning, 0)},
  };
  EXPECT_EQ(follow_waits(states, 0).rank, 2);
  EXPECT_THAT(life_text(states.at(2)), HasSubstr("runs in step 7, waits for nobody"));
}

TEST(Blame, ARankThatIsKilledOrEndedIsTheEndOfTheChain) {
  RankStates states = {{0, state(Life::kEnded, 3, {{1, "recv"}})},
                       {1, state(Life::kKilled, 9, {{0, "send"}})}};
  EXPECT_EQ(follow_waits(states, 0).rank, 1);
  EXPECT_THAT(life_text(states[1]), HasSubstr("was killed by signal 9 (Killed) in step 7"));
  states[1] = state(Life::kEnded, 0, {{0, "send"}});
  EXPECT_EQ(follow_waits(states, 0).rank, 1);
  EXPECT_THAT(life_text(states[1]), HasSubstr("ended with exit code 0"));
}

TEST(Blame, ARankOfWhichNothingIsKnownIsNamed) {
  const Blame blame = follow_waits({{0, state(Life::kEnded, 3, {{5, "recv"}})}}, 0);
  EXPECT_EQ(blame.rank, 5);
  EXPECT_FALSE(blame.known);
}

TEST(Blame, RanksThatWaitForEachOtherAreAllNamed) {
  const RankStates states = {{0, state(Life::kEnded, 3, {{2, "recv"}})},
                             {1, state(Life::kRunning, 0, {{2, "send"}})},
                             {2, state(Life::kRunning, 0, {{1, "recv"}})}};
  const Blame blame = follow_waits(states, 0);
  EXPECT_TRUE(blame.circle);
  EXPECT_THAT(blame.chain, ElementsAre(2, 1));
}

TEST(Blame, StatesTravelAsJsonAndStrangersAreLeftOut) {
  RankStates states = {{4, state(Life::kKilled, 11, {{1, "all_gather in group dp"}})}};
  states[4].last_line = "error: \xff";
  const std::string line =
      to_json(states).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const RankStates read = rank_states(nlohmann::json::parse(line));
  EXPECT_EQ(read.at(4).life, Life::kKilled);
  EXPECT_EQ(read.at(4).number, 11);
  EXPECT_EQ(read.at(4).step, 7);
  EXPECT_EQ(read.at(4).waits.at(0).peer, 1);
  EXPECT_EQ(read.at(4).waits.at(0).what, "all_gather in group dp");
  EXPECT_TRUE(rank_states(nlohmann::json::parse(R"([1, {"rank": 2}, {"life": 9}, null])")).empty());
  EXPECT_TRUE(rank_states(nlohmann::json::parse(R"({"a": 1})")).empty());
}

TEST(RankPage, SaysTheStepAndTheOpenWaits) {
  const std::unique_ptr<RankPage> launcher = RankPage::create();
  ASSERT_TRUE(launcher);
  EXPECT_EQ(launcher->step(), 0);
  EXPECT_TRUE(launcher->waits().empty());
  ::setenv(RankPage::kVariable, launcher->handle().c_str(), 1);
  const std::shared_ptr<RankPage> worker = RankPage::of_launcher();
  ::unsetenv(RankPage::kVariable);
  ASSERT_TRUE(worker);
  worker->set_step(12);
  const std::string what = "all_reduce in group tp", other(500, 'x');
  RankPage::Wait first(worker.get(), what);
  first.on(3);
  first.on(4);
  {
    RankPage::Wait second(worker.get(), other);
    second.on(0);
  }  // left as an exception leaves it: what a rank failed in stays
  EXPECT_EQ(launcher->step(), 12);
  ASSERT_EQ(launcher->waits().size(), 2u);
  EXPECT_EQ(launcher->waits()[0].peer, 4);
  EXPECT_EQ(launcher->waits()[0].what, what);
  EXPECT_EQ(launcher->waits()[1].peer, 0);
  EXPECT_EQ(launcher->waits()[1].what.size(), 119u);
  first.done();
  ASSERT_EQ(launcher->waits().size(), 1u);
  EXPECT_EQ(launcher->waits()[0].peer, 0);
}

TEST(RankPage, ThereNeedBeNone) {
  const std::string what = "recv";
  EXPECT_FALSE(RankPage::of_launcher());
  for (const char* wrong : {"", "/no/such/page", "/dev/null"}) {
    ::setenv(RankPage::kVariable, wrong, 1);
    EXPECT_FALSE(RankPage::of_launcher()) << wrong;
  }
  ::unsetenv(RankPage::kVariable);
  RankPage::Wait wait(nullptr, what);
  wait.on(3);
  wait.done();
}

}  // namespace
}  // namespace tessera
