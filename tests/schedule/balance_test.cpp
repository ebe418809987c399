#include "tessera/schedule/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/schedule/make_schedule.h"
#include "tessera/schedule/simulate.h"
#include "tests/schedule/options.h"

namespace tessera {
namespace {

using Sizes = std::vector<int64_t>;

TEST(Balance, EqualWhereItDivides) {
  EXPECT_EQ(balance_layers(8, 2, 2, 0, 0), (Sizes{2, 2, 2, 2}));
}

TEST(Balance, EntriesCanBePasted) {
  EXPECT_EQ(suggest_balanced_layers(10, 2, 2, 0, 0),
            (std::vector<std::string>{"0-1, 5-7", "2-4, 8-9"}));
  EXPECT_EQ(suggest_balanced_layers(3, 3, 1, 0, 0), (std::vector<std::string>{"0", "1", "2"}));
}

TEST(Balance, HeadAndEmbeddingTakeThePlaceOfLayers) {
  EXPECT_EQ(balance_layers(10, 4, 1, 0, 2), (Sizes{3, 3, 3, 1}));
  EXPECT_EQ(balance_layers(10, 4, 1, 2, 0), (Sizes{1, 3, 3, 3}));
  EXPECT_EQ(balance_layers(11, 4, 2, 0, 1), (Sizes{1, 1, 2, 1, 2, 2, 1, 1}));
}

TEST(Balance, AHeadHeavierThanARankLeavesItOneLayerAChunk) {
  EXPECT_EQ(balance_layers(9, 3, 1, 0, 20), (Sizes{4, 4, 1}));
}

TEST(Balance, TooFewLayers) {
  EXPECT_TRUE(balance_layers(3, 2, 2, 0, 0).empty());
  EXPECT_TRUE(suggest_balanced_layers(3, 2, 2, 0, 0).empty());
}

TEST(Balance, RanksDifferByAtMostOneLayer) {
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (int64_t chunks = 1; chunks <= 4; ++chunks) {
      for (int64_t layers = stages * chunks; layers < 3 * stages * chunks; ++layers) {
        const Sizes sizes = balance_layers(layers, stages, chunks, 0, 0);
        ASSERT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), layers);
        Sizes of_rank(stages, 0);
        for (int64_t s = 0; s < stages * chunks; ++s) of_rank[s % stages] += sizes[s];
        const auto [low, high] = std::minmax_element(of_rank.begin(), of_rank.end());
        EXPECT_LE(*high - *low, 1);
        const auto [small, large] = std::minmax_element(sizes.begin(), sizes.end());
        EXPECT_LE(*large - *small, 1);
      }
    }
  }
}

// 10 layers, 2 ranks, 2 chunks, m 8: the suggested list is idle for less time than the lists that
// users write.
TEST(Balance, BeatsTheUsualLists) {
  const auto idle = [](const Sizes& layers) {
    ScheduleOptions options = testing::options_1f1b(2, 2, 8);
    options.overlap_p2p = true;
    return simulate(make_schedule(options), layer_costs(layers, 0, 0)).idle_over_ideal();
  };
  const double suggested = idle(balance_layers(10, 2, 2, 0, 0));
  EXPECT_DOUBLE_EQ(suggested, 0.05);
  EXPECT_LT(suggested, idle({3, 2, 2, 3}));
  EXPECT_LT(suggested, idle({3, 3, 2, 2}));
  EXPECT_LT(suggested, idle({2, 2, 5, 1}));
}

}  // namespace
}  // namespace tessera
