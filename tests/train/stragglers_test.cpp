#include "tessera/train/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two stages of three ranks each; the second has twice the work.
class Stragglers : public testing::Test {
 protected:
  // One step in which everybody is off by up to a fifth, and `slow` takes `factor` times as long.
  std::vector<std::string> step(size_t slow = 99, double factor = 1, double reading = 0.01) {
    OwnTimes times;
    for (size_t rank = 0; rank < 6; ++rank) {
      const double noise = std::uniform_real_distribution<double>(0.9, 1.1)(random_);
      double own = (rank < 3 ? 1.0 : 2.0) * noise;
      double read = 0.01;
      if (rank == slow) {
        own *= factor;
        read = reading * own;
      }
      times.own.push_back(own);
      times.reading.push_back(read);
    }
    return watch_.add(times);
  }

  std::mt19937 random_{7};
  StragglerWatch watch_{{"a", "a", "a", "b", "b", "b"}};
};

TEST_F(Stragglers, QuietStepsGiveNoAlarm) {
  for (int i = 0; i < 1000; ++i) {
    // Now and then a step in which one rank stands for a while.
    ASSERT_THAT(step(i % 50 == 0 ? 4 : 99, 10), IsEmpty()) << i;
  }
}

TEST_F(Stragglers, ASlowRankIsNamedOnceWithWhatItDoes) {
  for (int i = 0; i < 40; ++i) ASSERT_THAT(step(), IsEmpty());
  std::vector<std::string> said;
  for (int i = 0; i < 40; ++i) {
    for (const std::string& line : step(1, 1.6)) said.push_back(line);
  }
  EXPECT_THAT(said,
              ElementsAre(HasSubstr("rank 1 holds the others up: over 20 steps it computes")));
  for (int i = 0; i < 40; ++i) ASSERT_THAT(step(), IsEmpty());
  said.clear();
  for (int i = 0; i < 40; ++i) {
    for (const std::string& line : step(3, 2, 0.8)) said.push_back(line);
  }
  EXPECT_THAT(said, ElementsAre(HasSubstr("rank 3 holds the others up: over 20 steps it reads")));
}

TEST_F(Stragglers, ARankThatIsAloneHasNoPeers) {
  StragglerWatch alone({"a", "b"});
  for (int i = 0; i < 100; ++i) EXPECT_THAT(alone.add({{1, 9}, {0, 0}}), IsEmpty());
}

}  // namespace
}  // namespace tessera
