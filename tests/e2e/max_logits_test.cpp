// MaxLogitsMonitor: the same number by layer and head in every layout.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;
using Logits = std::vector<std::vector<double>>;

std::vector<Logits> logits_of(const std::string& name, const Set& set, int64_t ranks,
                              const std::string& interval = "1") {
  const Config config = load_case(
      name, set + Set{"callbacks=[{type: MaxLogitsMonitor, step_interval: " + interval + "}]"},
      ranks);
  std::vector<Logits> steps;
  const auto record = run_until(config, ranks, 2);
  for (const StepMetrics& step : record->steps) steps.push_back(step.max_logits);
  return steps;
}

const Set kCp2 = {"parallelism.context_parallel=2", "model.use_attn_mask_compression=true",
                  local_batch(4)};

class MaxLogitsLayouts : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(MaxLogitsLayouts, EqualThoseOfOneRank) {
  const auto& [name, layout] = GetParam();
  static std::map<std::string, std::vector<Logits>> alone;
  auto& expected = alone[name];
  if (expected.empty()) expected = logits_of(name, {}, 1);
  const auto logits = logits_of(name, layout.set, layout.ranks);
  ASSERT_EQ(logits.size(), 2);
  for (size_t step = 0; step < 2; ++step) {
    ASSERT_EQ(logits[step].size(), 4) << "layers";
    for (size_t layer = 0; layer < 4; ++layer) {
      ASSERT_EQ(logits[step][layer].size(), 4) << "heads";
      for (size_t head = 0; head < 4; ++head) {
        EXPECT_TRUE(std::isfinite(expected[step][layer][head]));
        EXPECT_NEAR(logits[step][layer][head], expected[step][layer][head], 1e-9)
            << "step " << step << " layer " << layer << " head " << head;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, MaxLogitsLayouts,
    testing::Combine(
        testing::Values("llama_sgd64", "qwen3_eod64", "deepseek_v3_64"),
        testing::Values(
            Layout{"shard2", 2, {shard(2), local_batch(2)}}, Layout{"tp2", 2, {tp(2)}},
            Layout{"cp2", 2, kCp2},
            Layout{"cp2_ulysses", 2, kCp2 + Set{"parallelism.context_parallel_method=ulysses"}},
            Layout{"pp2_recompute",
                   2,
                   {"parallelism.pipeline_parallel=2",
                    "parallelism.pipeline_parallel_layers_per_stage=auto", local_batch(2),
                    "recompute={mode: full, full_recompute_layer: ['0-3']}"}})),
    case_and_layout_name);

TEST(MaxLogitsMonitor, SpeaksEverySoManySteps) {
  const auto logits = logits_of("llama_sgd64", {}, 1, "2");
  EXPECT_TRUE(logits[0].empty());
  EXPECT_EQ(logits[1].size(), 4);
  const auto silent = run_until(
      load_case("llama_sgd64", {"callbacks=[{type: MaxLogitsMonitor, enable_logging: false}]"}, 1),
      1, 1);
  EXPECT_TRUE(silent->steps[0].max_logits.empty());
}

}  // namespace
}  // namespace tessera::test
