#include "tessera/layout/layer_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

LayersPerStage list(std::vector<std::string> stages) { return {false, std::move(stages)}; }
const LayersPerStage kAuto{true, {}};

LayerPlacement placed(const LayersPerStage& asked, int64_t layers, int64_t stages, int64_t chunks) {
  std::vector<LayerProblem> problems;
  LayerPlacement placement = place_layers(asked, layers, stages, chunks, problems);
  EXPECT_TRUE(problems.empty()) << (problems.empty() ? "" : problems[0].rule);
  return placement;
}

std::string problem_of(const LayersPerStage& asked, int64_t layers, int64_t stages, int64_t chunks,
                       int64_t at_stage) {
  std::vector<LayerProblem> problems;
  place_layers(asked, layers, stages, chunks, problems);
  if (problems.empty()) return "none";
  EXPECT_EQ(problems[0].stage, at_stage) << problems[0].rule;
  return problems[0].rule;
}

TEST(LayerRanges, ExampleOfThePage) {
  const LayerPlacement placement = placed(list({"0-1, 4-8", "2-3, 9"}), 10, 2, 2);
  EXPECT_EQ(placement, (LayerPlacement{{{0, 1}, {4, 8}}, {{2, 3}, {9, 9}}}));
}

TEST(LayerRanges, AutoFollowsTheVirtualStages) {
  EXPECT_EQ(placed(kAuto, 8, 2, 2), (LayerPlacement{{{0, 1}, {4, 5}}, {{2, 3}, {6, 7}}}));
  EXPECT_EQ(placed(kAuto, 4, 4, 1), (LayerPlacement{{{0, 0}}, {{1, 1}}, {{2, 2}}, {{3, 3}}}));
}

TEST(LayerRanges, SpacesAreFine) {
  EXPECT_EQ(placed(list({" 0 - 1 ,4-4 ", "2-3 , 5"}), 6, 2, 2),
            (LayerPlacement{{{0, 1}, {4, 4}}, {{2, 3}, {5, 5}}}));
}

TEST(LayerRanges, AutoThatDoesNotDivideGivesAListToPaste) {
  const std::string rule = problem_of(kAuto, 10, 2, 2, -1);
  EXPECT_THAT(rule, HasSubstr("10 layers do not divide by 4 = 2 stages x 2 chunk(s)"));
  EXPECT_THAT(rule, HasSubstr(R"(["0-2, 5-6", "3-4, 7-9"])"));
}

TEST(LayerRanges, EveryErrorIsNamed) {
  EXPECT_THAT(problem_of(list({"0-1"}), 4, 2, 1, -1), HasSubstr("has 1 entries for 2 stages"));
  EXPECT_THAT(problem_of(list({"0-1", "2-3", "4"}), 5, 2, 1, -1), HasSubstr("3 entries"));
  EXPECT_THAT(problem_of(list({"0-1", "2-3"}), 4, 2, 2, 0), HasSubstr("has 1 range(s); 2"));
  EXPECT_THAT(problem_of(list({"0-1-2", "3"}), 4, 2, 1, 0), HasSubstr("more than one dash"));
  EXPECT_THAT(problem_of(list({"0-1", "x"}), 4, 2, 1, 1), HasSubstr("\"x\" is no range"));
  EXPECT_THAT(problem_of(list({"", "0-3"}), 4, 2, 1, 0), HasSubstr("is no range"));
  EXPECT_THAT(problem_of(list({"-1", "0-3"}), 4, 2, 1, 0), HasSubstr("is no range"));
  EXPECT_THAT(problem_of(list({"1-0", "2-3"}), 4, 2, 1, 0), HasSubstr("starts after its end"));
  EXPECT_THAT(problem_of(list({"0-1", "3"}), 4, 2, 1, 1), HasSubstr("layer 2 missing before"));
  EXPECT_THAT(problem_of(list({"1", "2-3"}), 4, 2, 1, 0), HasSubstr("layer 0 missing"));
  EXPECT_THAT(problem_of(list({"0-2", "2-3"}), 4, 2, 1, 1), HasSubstr("overlaps"));
  EXPECT_THAT(problem_of(list({"2-3", "0-1"}), 4, 2, 1, 0), HasSubstr("layers 0-1 missing"));
  EXPECT_THAT(problem_of(list({"0-1", "2"}), 4, 2, 1, -1), HasSubstr("layer 3 missing at the end"));
  EXPECT_THAT(problem_of(list({"0-1", "2-4"}), 4, 2, 1, 1), HasSubstr("beyond the last layer, 3"));
  EXPECT_THAT(problem_of(list({"0-99999999999999999999", "2"}), 4, 2, 1, 0),
              HasSubstr("is no range"));
  EXPECT_THAT(problem_of(kAuto, 3, 2, 2, -1), HasSubstr("3 layers cannot fill"));
}

TEST(LayerRanges, SeveralErrorsComeTogether) {
  std::vector<LayerProblem> problems;
  place_layers(list({"0-1-2", "x", "5-4"}), 6, 3, 1, problems);
  EXPECT_EQ(problems.size(), 3u);
}

TEST(LayerRanges, BalancedListsCoverAndAreEven) {
  for (int64_t stages = 1; stages <= 8; ++stages) {
    for (int64_t chunks = 1; chunks <= 4; ++chunks) {
      for (int64_t layers = stages * chunks; layers <= 40; ++layers) {
        const LayerPlacement placement =
            placed(list(balanced_layers(layers, stages, chunks)), layers, stages, chunks);
        int64_t least = layers, most = 0;
        for (const auto& ranges : placement) {
          int64_t held = 0;
          for (const LayerRange& range : ranges) held += range.count();
          least = std::min(least, held);
          most = std::max(most, held);
        }
        EXPECT_LE(most - least, 1) << layers << " on " << stages << " x " << chunks;
      }
    }
  }
}

TEST(LayerRanges, SpecsAscend) {
  std::string problem;
  EXPECT_EQ(parse_layer_specs({"0", "2-3"}, 4, problem), (std::vector<LayerRange>{{0, 0}, {2, 3}}));
  EXPECT_EQ(problem, "");
  for (const auto& specs : std::vector<std::vector<std::string>>{
           {"1", "1"}, {"2-3", "0"}, {"0-1", "1-2"}, {"4"}, {"3-1"}, {"a"}, {"0-1-2"}}) {
    problem.clear();
    EXPECT_TRUE(parse_layer_specs(specs, 4, problem).empty());
    EXPECT_NE(problem, "") << specs[0];
  }
}

TEST(LayerRanges, OneStageHoldsEverything) {
  Config config;
  config.model.num_hidden_layers = 7;
  EXPECT_EQ(place_layers(config), (LayerPlacement{{{0, 6}}}));
  config.parallelism.pipeline_parallel = 2;
  EXPECT_THROW(place_layers(config), ConfigError);
}

}  // namespace
}  // namespace tessera
