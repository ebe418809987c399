#include "tessera/launcher/restarts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using std::chrono::minutes;
using testing::AllOf;
using testing::HasSubstr;

Restart restart() {
  Restart one;
  one.generation = 2;
  one.cause = "rank 1 was killed by signal 9 (Killed) in step 8";
  one.rank = 1;
  one.exit_code = 3;
  one.reached = 7;
  one.failed_at = 1000.25;
  return one;
}

TEST(Restarts, WhatComesAgainOrWasAskedForDoesNotStartAgain) {
  for (const int code : {1, 3, 4, 42}) EXPECT_TRUE(may_start_again(code)) << code;
  for (const int code : {0, 2, 5, 6, 127, 130, 143}) EXPECT_FALSE(may_start_again(code)) << code;
}

TEST(Restarts, SoManyInAnyHour) {
  RestartLimit limit(2);
  const RestartLimit::Clock::time_point start{};
  for (const int at : {0, 50}) {
    EXPECT_EQ(limit.refusal(start + minutes(at)), "");
    limit.finished_step();
  }
  EXPECT_THAT(limit.refusal(start + minutes(59)), HasSubstr("2 times within an hour"));
  EXPECT_EQ(limit.refusal(start + minutes(60)), "");  // the first is an hour ago
  limit.finished_step();
  EXPECT_THAT(limit.refusal(start + minutes(109)), HasSubstr("within an hour"));
}

TEST(Restarts, ThreeWithoutAStepAreTheLast) {
  RestartLimit limit(1000);
  const RestartLimit::Clock::time_point now{};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(limit.refusal(now), "");
  limit.finished_step();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limit.refusal(now), "");
  EXPECT_THAT(limit.refusal(now), HasSubstr("3 times without a finished step"));
}

TEST(Restarts, AWorkerReadsWhatItsLauncherTold) {
  const std::vector<Restart> told = {restart(), restart()};
  const std::vector<Restart> read = restarts_of([&](const std::string&) { return to_text(told); });
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].cause, told[1].cause);
  EXPECT_EQ(read[1].reached, 7);
  EXPECT_EQ(read[1].failed_at, 1000.25);
}

TEST(Restarts, WhatIsNoListOfThemIsNone) {
  for (const char* text : {"", "{}", "[1, {}]", "[", R"([{"generation": "x"}])"}) {
    EXPECT_TRUE(restarts_of([&](const std::string&) { return text; }).empty()) << text;
  }
  EXPECT_TRUE(restarts_of([](const std::string&) { return std::nullopt; }).empty());
}

TEST(Restarts, TheCostIsKnownWhenAStepIsFinished) {
  Restart one = restart();
  EXPECT_EQ(one.steps_lost(), 0);
  EXPECT_THAT(report({one}), AllOf(HasSubstr("1 restart:"), HasSubstr("no step was finished")));
  one.first_step = 5;  // 1 to 4 were saved, 5 to 7 are done again
  one.going_on_at = 1003.75;
  EXPECT_EQ(one.steps_lost(), 3);
  EXPECT_THAT(report({one, one}), AllOf(HasSubstr("2 restarts:"), HasSubstr(one.cause),
                                        HasSubstr("step 5 after 3.5 s, 3 steps lost")));
  const auto line = nlohmann::json::parse(json_line(one, 32));
  EXPECT_EQ(line.at("restart"), 2);
  EXPECT_EQ(line.at("samples"), 32);
  EXPECT_EQ(line.at("steps_lost"), 3);
  EXPECT_EQ(line.at("seconds"), 3.5);
  EXPECT_EQ(line.at("cause"), one.cause);
}

}  // namespace
}  // namespace tessera
