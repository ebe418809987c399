// One rank equals what other software computed from the same files.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"

namespace tessera::test {
namespace {

struct Reference {
  std::string name;
  double tolerance;
};

class ReferenceRun : public testing::TestWithParam<Reference> {};

TEST_P(ReferenceRun, OneRankMatches) {
  const auto& [name, tolerance] = GetParam();
  const Config config = load_case(name, {}, 1);
  const auto run = train(config, 1, config.training.steps);
  expect_matches_case(*run, name, tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, ReferenceRun,
    testing::Values(Reference{"llama_sgd64", 1e-9}, Reference{"llama_adamw64", 1e-9},
                    Reference{"llama_adamw32", 1e-5}, Reference{"qwen2_64", 1e-9},
                    Reference{"qwen2_adamw64", 1e-9}, Reference{"qwen3_tied64", 1e-9},
                    Reference{"qwen3_eod64", 1e-9}, Reference{"qwen3_moe64", 1e-9},
                    Reference{"qwen3_moe_aux64", 1e-9}, Reference{"deepseek_v3_64", 1e-9}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Families, ReferenceRun,
    testing::Values(Reference{"mistral_window64", 1e-9}, Reference{"mixtral_64", 1e-9},
                    Reference{"phi3_64", 1e-9}, Reference{"phi3_longrope64", 1e-9},
                    Reference{"olmo2_64", 1e-9}, Reference{"olmo3_64", 1e-9},
                    Reference{"gemma2_64", 1e-9}, Reference{"gemma3_64", 1e-9},
                    Reference{"gemma3_odd64", 1e-9}, Reference{"glm4_64", 1e-9},
                    Reference{"glm4_moe64", 1e-9}, Reference{"gpt_oss64", 1e-9},
                    Reference{"gpt_oss_mxfp4_64", 1e-9}, Reference{"llama_linear64", 1e-9},
                    Reference{"llama_dynamic64", 1e-9}),
    [](const auto& info) { return info.param.name; });

// Against what other software computed also where the work is cut.
class ReferenceLayouts : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(ReferenceLayouts, Match) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  expect_matches_case(*train(config, layout.ranks, config.training.steps), name, 1e-9);
}

const std::string kMask = "model.use_attn_mask_compression=true";
const std::string kContext = "parallelism.context_parallel=2";
const std::vector<std::string> kPipeline = {"parallelism.pipeline_parallel=2",
                                            "parallelism.pipeline_parallel_layers_per_stage=auto"};

INSTANTIATE_TEST_SUITE_P(
    Qwen2, ReferenceLayouts,
    testing::Combine(
        testing::Values("qwen2_64", "qwen2_adamw64"),
        testing::Values(
            Layout{"fsdp", 4, {shard(4), local_batch(2)}}, Layout{"tp", 2, {tp(2), local_batch(2)}},
            Layout{"tp_with_copied_kv_heads", 4, {tp(4), local_batch(2)}},
            Layout{"pp", 2, {kPipeline[0], kPipeline[1], local_batch(2)}},
            Layout{"cp", 2, {kContext, kMask, local_batch(2)}},
            Layout{
                "ulysses",
                2,
                {kContext, kMask, "parallelism.context_parallel_method=ulysses", local_batch(2)}},
            Layout{"mixed", 8, {shard(2), tp(2), kPipeline[0], kPipeline[1], local_batch(2)}})),
    case_and_layout_name);

}  // namespace
}  // namespace tessera::test
