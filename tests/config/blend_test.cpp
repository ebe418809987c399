#include "tessera/config/blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::ElementsAre;

Blend parse(const std::vector<std::string>& list) {
  std::string problem;
  Blend blend = parse_blend(list, problem);
  EXPECT_EQ(problem, "");
  return blend;
}

std::vector<double> parts_of(const std::string& split) {
  std::string problem;
  std::vector<double> parts = parse_split(split, problem);
  EXPECT_EQ(problem, "") << split;
  return parts;
}

TEST(ParseBlend, WeightsAndPrefixesOrPrefixesAlone) {
  const Blend weighted = parse({"0.5", "data/a", "30", "data/b"});
  EXPECT_THAT(weighted.prefixes, ElementsAre("data/a", "data/b"));
  EXPECT_THAT(weighted.weights, ElementsAre(0.5, 30.0));
  EXPECT_THAT(parse({"a", "b", "c"}).prefixes, ElementsAre("a", "b", "c"));
  EXPECT_THAT(parse({"a", "b"}).weights, ElementsAre());
}

// What is wrong with either: tests/rules/validate_run_test.cpp.
TEST(ParseSplit, NumbersHoweverTheyArePutApart) {
  EXPECT_THAT(parts_of("90,5,5"), ElementsAre(90, 5, 5));
  EXPECT_THAT(parts_of("[949, 50, 1]"), ElementsAre(949, 50, 1));
  EXPECT_THAT(parts_of("99.5:.5"), ElementsAre(99.5, 0.5));
  EXPECT_THAT(parts_of("1"), ElementsAre(1));
}

}  // namespace
}  // namespace tessera
