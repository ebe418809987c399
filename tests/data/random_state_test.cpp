#include "tessera/data/random_state.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tessera {
namespace {

template <typename T>
std::vector<T> shuffled(RandomState& random, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(std::span(values));
  return values;
}

// r = numpy.random.RandomState(seed), then r.shuffle(numpy.arange(n)) for n = 12, 5 and 100000
// (of which the first four and the last four), by numpy 2.4.6.
TEST(RandomState, ShufflesAsNumpyDoes) {
  struct Expected {
    int64_t seed;
    std::vector<int32_t> twelve, five, first, last;
  };
  const std::vector<Expected> cases = {
      {1234,
       {7, 8, 11, 2, 9, 10, 1, 0, 4, 5, 6, 3},
       {1, 3, 2, 0, 4},
       {46532, 53862, 59560, 31662},
       {93520, 93509, 73180, 79728}},
      {0,
       {6, 11, 4, 10, 2, 8, 1, 7, 9, 3, 0, 5},
       {3, 1, 2, 4, 0},
       {67874, 28609, 22049, 78545},
       {82457, 89688, 18983, 32230}},
      {4294967295,
       {11, 8, 5, 9, 1, 10, 6, 0, 4, 7, 2, 3},
       {4, 0, 1, 2, 3},
       {60354, 52303, 25355, 85779},
       {905, 52425, 3598, 37590}},
  };
  for (const Expected& expected : cases) {
    RandomState random(expected.seed);
    EXPECT_EQ(shuffled<int32_t>(random, 12), expected.twelve);
    EXPECT_EQ(shuffled<int32_t>(random, 5), expected.five);
    const auto many = shuffled<int32_t>(random, 100000);
    EXPECT_EQ(std::vector<int32_t>(many.begin(), many.begin() + 4), expected.first);
    EXPECT_EQ(std::vector<int32_t>(many.end() - 4, many.end()), expected.last);
  }
}

TEST(RandomState, ThePermutationDoesNotDependOnTheElementType) {
  RandomState narrow(3);
  RandomState wide(3);
  const auto a = shuffled<uint32_t>(narrow, 1000);
  const auto b = shuffled<int64_t>(wide, 1000);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

TEST(RandomState, NothingToShuffleDrawsNothing) {
  RandomState random(5);
  RandomState same(5);
  shuffled<int32_t>(random, 0);
  shuffled<int32_t>(random, 1);
  EXPECT_EQ(shuffled<int32_t>(random, 9), shuffled<int32_t>(same, 9));
}

TEST(RandomState, BoundsBeyond32Bits) {
  RandomState random(1);
  uint64_t all = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random.bounded(uint64_t{5} << 32);
    EXPECT_LE(value, uint64_t{5} << 32);
    all |= value;
  }
  EXPECT_GT(all, uint64_t{1} << 34);
}

TEST(RandomState, SeedsOutOfRangeAreRefused) {
  EXPECT_THROW(RandomState(-1), ConfigError);
  EXPECT_THROW(RandomState(int64_t{1} << 32), ConfigError);
}

}  // namespace
}  // namespace tessera
