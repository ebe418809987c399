// Generation: the most likely tokens are those of transformers (tests/cases/greedy.json), with kept
// keys and values as without, on one rank as in layouts.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/generate/generate.h"
#include "tessera/generate/generation_config.h"
#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"

namespace tessera::test {
namespace {

using Ids = std::vector<int32_t>;

struct Expected {
  std::vector<Ids> prompts;
  std::vector<Ids> answers;
};

Expected expected_of(const std::string& name) {
  std::ifstream file(source_dir() / "tests/cases/greedy.json");
  const auto root = nlohmann::json::parse(file);
  Expected expected;
  for (const auto& row : root.at(name)) {
    expected.prompts.push_back(row.at("prompt").get<Ids>());
    expected.answers.push_back(row.at("answer").get<Ids>());
  }
  return expected;
}

Config model_of(const std::string& name, const std::vector<std::string>& set, int64_t ranks) {
  const ModelSource source{(case_path(name) / "model").string(), "", "", "", "float64"};
  Config config = generation_config(source, set, ranks);
  config.model.seq_length = 80;
  return config;
}

std::vector<Ids> answers_of(const std::string& name, const Layout& layout, int64_t batch_size = 2) {
  const Config config = model_of(name, layout.set, layout.ranks);
  const Expected expected = expected_of(name);
  GenerationOptions options;
  options.max_new_tokens = static_cast<int64_t>(expected.answers[0].size());
  options.batch_size = batch_size;
  std::vector<Ids> ids;
  run_ranks(static_cast<int>(layout.ranks), [&](const ProcessGroup& world) {
    Generator generator(config, world);
    const auto answers = generate(generator, expected.prompts, options);
    if (world.rank() != 0) return;
    for (const Answer& answer : answers) ids.push_back(answer.ids);
  });
  return ids;
}

class Greedy : public testing::TestWithParam<std::string> {};

TEST_P(Greedy, TokensAreThoseOfTransformers) {
  EXPECT_EQ(answers_of(GetParam(), {"single", 1, {}}), expected_of(GetParam()).answers);
}

TEST_P(Greedy, KeptKeysChangeNothing) {
  const Ids text = [&] {
    const Expected expected = expected_of(GetParam());
    Ids ids = expected.prompts.back();
    ids.insert(ids.end(), expected.answers.back().begin(), expected.answers.back().end());
    return ids;
  }();
  run_ranks(1, [&](const ProcessGroup& world) {
    Generator kept(model_of(GetParam(), {}, 1), world), whole(model_of(GetParam(), {}, 1), world);
    const std::span<const int32_t> all = text;
    size_t past = 0;
    for (const size_t length : {size_t{5}, size_t{6}, size_t{30}, size_t{31}, all.size()}) {
      const at::Tensor a = kept.next_logits({{0, all.subspan(past, length - past)}});
      const at::Tensor b = whole.next_logits({{0, all.first(length)}});
      whole.forget(0);
      EXPECT_LE((a - b).abs().max().item<double>(), 1e-12 * b.abs().max().item<double>()) << length;
      past = length;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Families, Greedy,
                         testing::Values("llama_sgd64", "qwen2_64", "qwen3_tied64", "qwen3_moe64",
                                         "deepseek_v3_64", "mistral_window64", "mixtral_64",
                                         "phi3_64", "phi3_longrope64", "olmo2_64", "olmo3_64",
                                         "gemma2_64", "gemma3_64", "gemma3_odd64", "glm4_64",
                                         "glm4_moe64", "gpt_oss64", "llama_linear64"),
                         [](const auto& info) { return info.param; });

const std::vector<std::string> kPipeline = {"parallelism.pipeline_parallel=2",
                                            "parallelism.pipeline_parallel_layers_per_stage=auto"};

class GreedyLayouts : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(GreedyLayouts, TokensAreThoseOfTransformers) {
  const auto& [name, layout] = GetParam();
  EXPECT_EQ(answers_of(name, layout), expected_of(name).answers);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, GreedyLayouts,
    testing::Combine(testing::Values("llama_sgd64", "gemma3_64", "deepseek_v3_64"),
                     testing::Values(Layout{"tp2", 2, {tp(2)}}, Layout{"pp2", 2, kPipeline},
                                     Layout{"copies", 2, {}},
                                     Layout{"pp2tp2", 4, kPipeline + std::vector{tp(2)}})),
    case_and_layout_name);
INSTANTIATE_TEST_SUITE_P(
    Experts, GreedyLayouts,
    testing::Combine(testing::Values("qwen3_moe64", "gpt_oss64"),
                     testing::Values(Layout{"ep2", 2, {"parallelism.expert_parallel=2"}},
                                     Layout{
                                         "ep2tp2", 4, {"parallelism.expert_parallel=2", tp(2)}})),
    case_and_layout_name);

// A prompt that ends gives its place to the next one.
TEST(Generation, PlacesAreGivenOn) {
  EXPECT_EQ(answers_of("llama_sgd64", {"single", 1, {}}, 1), expected_of("llama_sgd64").answers);
}

TEST(Generation, EndsAtAStopTokenAndWhenTheListenerSays) {
  const Expected expected = expected_of("llama_sgd64");
  run_ranks(2, [&](const ProcessGroup& world) {
    Generator generator(model_of("llama_sgd64", {tp(2)}, 2), world);
    GenerationOptions options;
    options.max_new_tokens = 40;
    options.stop_tokens = {expected.answers[0][3]};
    const auto stopped = generate(generator, {expected.prompts[0]}, options);
    EXPECT_EQ(stopped[0].end, Answer::End::kStop);
    EXPECT_EQ(stopped[0].ids.back(), expected.answers[0][3]);
    EXPECT_LE(stopped[0].ids.size(), 4);
    options.stop_tokens.clear();
    const OnToken after_two = [](size_t, const Answer& answer) { return answer.ids.size() == 2; };
    const auto heard = generate(generator, {expected.prompts[0]}, options, after_two);
    EXPECT_EQ(heard[0].ids.size(), 2);
    EXPECT_EQ(heard[0].end, Answer::End::kStop);
  });
}

// Draws depend on the seed, the prompt's number and the place alone.
TEST(Generation, DrawsAreThoseOfOneRank) {
  const Expected expected = expected_of("llama_sgd64");
  GenerationOptions options;
  options.max_new_tokens = 30;
  options.sampling.temperature = 1.0;
  options.sampling.top_p = 0.95;
  std::vector<std::vector<Ids>> runs;
  for (const Layout& layout :
       {Layout{"one", 1, {}}, Layout{"tp", 2, {tp(2)}}, Layout{"dp", 2, {}}}) {
    runs.emplace_back();
    run_ranks(static_cast<int>(layout.ranks), [&](const ProcessGroup& world) {
      Generator generator(model_of("llama_sgd64", layout.set, layout.ranks), world);
      const auto answers = generate(generator, expected.prompts, options);
      if (world.rank() != 0) return;
      for (const Answer& answer : answers) runs.back().push_back(answer.ids);
    });
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_NE(runs[0], expected.answers);
}

}  // namespace
}  // namespace tessera::test
