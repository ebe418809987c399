#include "tessera/storage/tiling.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr int64_t kHuge = INT64_MAX;

TEST(Tiling, EveryElementIsInOneBox) {
  EXPECT_EQ(tiling_problem({4, 3}, {{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}}), "");
  EXPECT_EQ(tiling_problem(
                {4, 4}, {{{0, 0}, {2, 2}}, {{0, 2}, {2, 2}}, {{2, 0}, {2, 2}}, {{2, 2}, {2, 2}}}),
            "");
  EXPECT_EQ(tiling_problem({}, {{{}, {}}}), "");
  EXPECT_EQ(tiling_problem({0, 3}, {}), "");
  // As many elements as the whole, some of them twice.
  EXPECT_EQ(tiling_problem({4, 3}, {{{0, 0}, {2, 3}}, {{1, 0}, {2, 3}}}),
            "its parts do not tile it");
  EXPECT_EQ(tiling_problem({2}, {{{0}, {1}}, {{0}, {1}}}), "its parts do not tile it");
  EXPECT_EQ(tiling_problem({4, 3}, {{{0, 0}, {2, 3}}}), "its parts do not tile it");
  EXPECT_EQ(tiling_problem({}, {}), "its parts do not tile it");
}

TEST(Tiling, BoxesLieInTheTensor) {
  EXPECT_EQ(tiling_problem({4}, {{{0, 0}, {4, 1}}}), "a part of another rank");
  EXPECT_EQ(tiling_problem({4}, {{{-1}, {4}}}), "a part outside");
  EXPECT_EQ(tiling_problem({4}, {{{0}, {0}}, {{0}, {4}}}), "a part outside");
  EXPECT_EQ(tiling_problem({4}, {{{1}, {4}}}), "a part outside");
  EXPECT_EQ(tiling_problem({4}, {{{kHuge}, {kHuge}}}), "a part outside");
}

TEST(Tiling, SizesThatOverflowAreRefused) {
  EXPECT_EQ(tiling_problem({kHuge, kHuge}, {}), "a shape that no tensor has");
  EXPECT_EQ(tiling_problem({-1}, {}), "a shape that no tensor has");
  EXPECT_EQ(tiling_problem({kHuge}, {{{0}, {kHuge}}, {{0}, {kHuge}}}), "its parts do not tile it");
}

}  // namespace
}  // namespace tessera
