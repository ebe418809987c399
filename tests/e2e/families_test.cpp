// Every family in layouts of every kind: what one rank computes, whose numbers ReferenceRun holds
// to other software's.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

class FamilyLayouts : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(FamilyLayouts, AreOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  expect_same_training(*train(config, layout.ranks, config.training.steps), one_rank(name), 1e-10);
}

const std::string kMask = "model.use_attn_mask_compression=true";
const std::string kContext2 = "parallelism.context_parallel=2";
const std::string kUlysses = "parallelism.context_parallel_method=ulysses";
const std::vector<std::string> kPipeline = {"parallelism.pipeline_parallel=2",
                                            "parallelism.pipeline_parallel_layers_per_stage=auto"};
const std::string kEp2 = "parallelism.expert_parallel=2";

const Layout kShard{"fsdp", 4, {shard(4), local_batch(2)}};
const Layout kTensor{"tp", 2, {tp(2), local_batch(2)}};
const Layout kTensor4{"tp4", 4, {tp(4), local_batch(2)}};
const Layout kStages{"pp", 2, kPipeline + std::vector<std::string>{local_batch(2)}};
const Layout kContext{"cp", 2, {kContext2, kMask, local_batch(2)}};
const Layout kHeads{"ulysses", 2, {kContext2, kMask, kUlysses, local_batch(2)}};
const Layout kExperts{"ep", 2, {shard(2), kEp2, local_batch(2)}};
const Layout kMixed{"mixed", 8,
                    kPipeline + std::vector<std::string>{shard(2), tp(2), local_batch(2)}};

INSTANTIATE_TEST_SUITE_P(
    Dense, FamilyLayouts,
    testing::Combine(testing::Values("mistral_window64", "phi3_64", "olmo2_64", "olmo3_64",
                                     "gemma2_64", "gemma3_64", "glm4_64"),
                     testing::Values(kShard, kTensor, kTensor4, kStages, kContext, kHeads, kMixed)),
    case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(Experts, FamilyLayouts,
                         testing::Combine(testing::Values("mixtral_64", "glm4_moe64", "gpt_oss64"),
                                          testing::Values(kShard, kTensor, kTensor4, kStages,
                                                          kContext, kHeads, kExperts, kMixed)),
                         case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(OneKvHead, FamilyLayouts,
                         testing::Combine(testing::Values("gemma3_odd64"),
                                          testing::Values(kShard, kTensor, kStages, kContext)),
                         case_and_layout_name);

}  // namespace
}  // namespace tessera::test
