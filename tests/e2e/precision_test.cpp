// bfloat16: the same training on every layout within its rounding, and the curve of float32.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Sets = std::vector<std::string>;

// As people train: bfloat16 products over float32 masters.
const Sets kMixed = {"model.params_dtype=float32",   "model.embedding_params_dtype=float32",
                     "model.compute_dtype=bfloat16", "model.layernorm_compute_dtype=float32",
                     "model.rotary_dtype=float32",   "model.moe_router_dtype=float32"};

Config load(const std::string& name, Sets set, int64_t steps, int64_t ranks) {
  set.insert(set.begin(), kMixed.begin(), kMixed.end());
  set.push_back("training.steps=" + std::to_string(steps));
  return load_case(name, set, ranks);
}

struct Case {
  std::string name;
  std::string file;
  Layout layout;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Bfloat16 : public testing::TestWithParam<Case> {};

TEST_P(Bfloat16, EqualsOneRankWithinRounding) {
  const Case& c = GetParam();
  constexpr int64_t kSteps = 2;
  const auto reference = train(load(c.file, {}, kSteps, 1), 1, kSteps);
  const auto run =
      train(load(c.file, c.layout.set, kSteps, c.layout.ranks), c.layout.ranks, kSteps);
  for (int64_t i = 0; i < kSteps; ++i) {
    const auto step = static_cast<size_t>(i);
    EXPECT_NEAR(run->steps[step].loss / reference->steps[step].loss, 1.0, 2e-2);
    EXPECT_NEAR(run->steps[step].grad_norm / reference->steps[step].grad_norm, 1.0, 2e-2);
  }
  expect_tensors_near(*run, *reference, 2e-2);
}

const std::string kRecompute = "recompute={mode: full, full_recompute_layer: ['0-1']}";

INSTANTIATE_TEST_SUITE_P(
    Layouts, Bfloat16,
    testing::Values(
        Case{"shard2_accumulate", "qwen3_tied64", {"", 2, {shard(2), local_batch(2)}}},
        Case{"tp2_recompute", "qwen3_tied64", {"", 2, {tp(2), kRecompute}}},
        Case{"cp2",
             "qwen3_tied64",
             {"", 2, {"parallelism.context_parallel=2", "model.use_attn_mask_compression=true"}}},
        Case{"pp2",
             "qwen3_tied64",
             {"",
              2,
              {"parallelism.pipeline_parallel=2",
               "parallelism.pipeline_parallel_layers_per_stage=auto", local_batch(2)}}},
        Case{"bfloat16_parameters_shard2",
             "llama_sgd64",
             {"",
              2,
              {shard(2), local_batch(2), "model.params_dtype=bfloat16",
               "model.embedding_params_dtype=bfloat16"}}},
        Case{"ep2",
             "qwen3_moe_aux64",
             {"", 2, {"parallelism.expert_parallel=2", shard(-1), local_batch(4)}}},
        Case{"latent_attention_shard2", "deepseek_v3_64", {"", 2, {shard(2), local_batch(4)}}}),
    [](const auto& info) { return info.param.name; });

TEST(Bfloat16Curve, IsThatOfFloat32) {
  constexpr int64_t kSteps = 10;
  const auto wide =
      train(load("llama_adamw64", {"model.compute_dtype=float32"}, kSteps, 1), 1, kSteps);
  for (const Sets& set :
       {Sets{}, Sets{"model.params_dtype=bfloat16", "model.embedding_params_dtype=bfloat16"}}) {
    const auto narrow = train(load("llama_adamw64", set, kSteps, 1), 1, kSteps);
    for (size_t i = 0; i < wide->steps.size(); ++i) {
      EXPECT_NEAR(narrow->steps[i].loss / wide->steps[i].loss, 1.0, 1e-2) << "step " << i + 1;
    }
    for (const auto& [name, row] : narrow->values) EXPECT_EQ(row.scalar_type(), at::kFloat) << name;
  }
  EXPECT_LT(wide->steps.back().loss, wide->steps.front().loss);
}

}  // namespace
}  // namespace tessera::test
