#include "tessera/planner/expert_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/rules/derive.h"

namespace tessera {
namespace {

Config eight_experts(int64_t ep, int64_t node, int64_t k) {
  Config config;
  config.model.model_type = "qwen3_moe";
  config.model.n_routed_experts = 8;
  config.model.num_experts_per_tok = k;
  config.model.num_hidden_layers = 3;
  config.model.mlp_only_layers = {1};
  config.model.hidden_size = 10;
  config.model.seq_length = 100;
  config.model.compute_dtype = DType::kFloat32;
  config.parallelism.expert_parallel = ep;
  config.parallelism.npu_nums_per_device = node;
  config.training.local_batch_size = 1;
  config.training.global_batch_size = 4;
  return config;
}

std::optional<ExpertPlan> plan(const Config& config, int64_t world) {
  const ParallelDims dims = derive_dims(config, world);
  const BatchPlan batch = make_batch_plan(config, dims);
  StagePlan stage;
  stage.chunks.push_back({0, 0, 2, true, true, 0});
  return plan_experts(config, dims, batch, {stage});
}

// 100 tokens of 40 bytes, two layers with experts, four crossings: 32,000 bytes a row of each
// token.
TEST(ExpertPlan, BytesWithEvenRouting) {
  const auto p = plan(eight_experts(4, 2, 4), 4);
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->experts_of_rank, 2);
  EXPECT_EQ(p->layers, 2);
  EXPECT_EQ(p->nodes, 2);
  EXPECT_EQ(p->all_to_all.in_node, 32000);  // one of the four choices
  EXPECT_EQ(p->all_to_all.between, 64000);  // two
  EXPECT_EQ(p->by_node->in_node, 64000);    // half of the four choices in the node
  // All four in the own node: 4 3 2 1 / (8 7 6 5) = 1 / 70.
  EXPECT_EQ(p->by_node->between, 31542);
  EXPECT_TRUE(p->pays());
}

TEST(ExpertPlan, FewChoicesOverManyNodesDoNotPay) {
  const auto p = plan(eight_experts(4, 1, 1), 4);
  EXPECT_EQ(p->nodes, 4);
  EXPECT_EQ(p->all_to_all.in_node, 0);
  EXPECT_EQ(p->all_to_all.between, 24000);
  EXPECT_EQ(p->by_node->between, 24000);
  EXPECT_FALSE(p->pays());
}

TEST(ExpertPlan, NothingWithoutExpertParallelism) {
  EXPECT_FALSE(plan(eight_experts(1, 8, 2), 4).has_value());
}

TEST(ExpertPlan, TextSaysWhatIsSent) {
  Plan whole;
  whole.dims = derive_dims(eight_experts(4, 2, 4), 4);
  whole.experts = plan(eight_experts(4, 2, 4), 4);
  EXPECT_THAT(to_text(whole), testing::HasSubstr("2 of 8 a rank in 2 layers"));
  EXPECT_THAT(to_text(whole), testing::HasSubstr("over 2 nodes de-redundancy pays"));
  EXPECT_THAT(to_json(whole), testing::HasSubstr("\"deredundancy_pays\": true"));
}

}  // namespace
}  // namespace tessera
