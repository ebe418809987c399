#include "tessera/generate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

const std::vector<double> kLogits = {std::log(0.5), std::log(0.3), std::log(0.15), std::log(0.05)};

SamplingOptions at_temperature(double temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  return options;
}

TEST(Sampling, ZeroTemperatureTakesTheFirstOfTheMostLikely) {
  EXPECT_EQ(choose_token({1, 3, 3, 2}, {}, {}, {}), 1);
}

TEST(Sampling, ProbabilitiesAreThoseOfTheSoftmax) {
  EXPECT_THAT(token_probabilities(kLogits, {}, at_temperature(1)),
              ElementsAre(DoubleNear(0.5, 1e-15), DoubleNear(0.3, 1e-15), DoubleNear(0.15, 1e-15),
                          DoubleNear(0.05, 1e-15)));
  const double sum = 0.25 + 0.09 + 0.0225 + 0.0025;  // at half the temperature: squares
  EXPECT_THAT(token_probabilities(kLogits, {}, at_temperature(0.5))[0],
              DoubleNear(0.25 / sum, 1e-15));
}

TEST(Sampling, LeavesOutWhatTheOptionsSay) {
  SamplingOptions options = at_temperature(1);
  options.top_k = 2;
  EXPECT_THAT(token_probabilities(kLogits, {}, options),
              ElementsAre(DoubleNear(0.625, 1e-15), DoubleNear(0.375, 1e-15), 0, 0));
  options = at_temperature(1);
  options.top_p = 0.7;  // the first two have 0.8, the first alone 0.5
  EXPECT_THAT(token_probabilities(kLogits, {}, options),
              ElementsAre(DoubleNear(0.625, 1e-15), DoubleNear(0.375, 1e-15), 0, 0));
  options = at_temperature(1);
  options.min_p = 0.29;  // of 0.5: 0.145
  EXPECT_THAT(token_probabilities(kLogits, {}, options),
              ElementsAre(DoubleNear(0.5 / 0.95, 1e-15), DoubleNear(0.3 / 0.95, 1e-15),
                          DoubleNear(0.15 / 0.95, 1e-15), 0));
  options.top_p = 1e-9;  // one token always stays
  EXPECT_THAT(token_probabilities(kLogits, {}, options), ElementsAre(1, 0, 0, 0));
}

TEST(Sampling, PenaltyMakesWhatWasSaidLessLikely) {
  SamplingOptions options;
  options.repetition_penalty = 2;
  const std::vector<int32_t> said = {0, 0, 2};
  EXPECT_EQ(choose_token({1.0, 0.6, -1.0, -1.5}, said, options, {}), 1);
  EXPECT_EQ(choose_token({-1.0, -9.0, -1.0, -1.9}, said, options, {}), 3);
}

TEST(Sampling, ADrawDependsOnItsPlaceAlone) {
  const SamplingOptions options = at_temperature(1);
  std::vector<int32_t> first, again;
  for (uint64_t token = 0; token < 50; ++token) {
    first.push_back(choose_token(kLogits, {}, options, {3, token}));
    again.push_back(choose_token(kLogits, {}, options, {3, token}));
  }
  EXPECT_EQ(first, again);
  SamplingOptions other = options;
  other.seed = 43;
  std::vector<int32_t> differs;
  for (uint64_t token = 0; token < 50; ++token) {
    differs.push_back(choose_token(kLogits, {}, other, {3, token}));
  }
  EXPECT_NE(first, differs);
}

// Chi-square of 20,000 draws, 3 degrees of freedom: above 25 once in 60,000 seeds; this seed is
// fixed.
TEST(Sampling, FrequenciesAreTheProbabilities) {
  const SamplingOptions options = at_temperature(1);
  std::vector<double> count(4, 0);
  constexpr uint64_t kDraws = 20'000;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    count[static_cast<size_t>(choose_token(kLogits, {}, options, {draw, draw % 7}))] += 1;
  }
  double chi = 0;
  for (size_t id = 0; id < count.size(); ++id) {
    const double expected = std::exp(kLogits[id]) * kDraws;
    chi += (count[id] - expected) * (count[id] - expected) / expected;
  }
  EXPECT_LT(chi, 25);
}

}  // namespace
}  // namespace tessera
