// Experts over ranks train the same model as one rank: both dispatchers, with every other
// dimension.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/rules/derive.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Sets = std::vector<std::string>;

Sets ep(int64_t degree, Sets more = {}) {
  more.push_back("parallelism.expert_parallel=" + std::to_string(degree));
  return more;
}
// De-redundancy on nodes of `node` ranks.
Sets nodes(int64_t degree, int64_t node, Sets more = {}) {
  more.push_back("parallelism.moe_token_dispatcher_type=alltoall_deredundancy");
  more.push_back("parallelism.npu_nums_per_device=" + std::to_string(node));
  return ep(degree, std::move(more));
}
Sets pp(int64_t stages, int64_t chunks, Sets more) {
  more.push_back("parallelism.pipeline_parallel=" + std::to_string(stages));
  more.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks));
  more.push_back("parallelism.pipeline_parallel_layers_per_stage=auto");
  return more;
}

Sets cp(int64_t degree, const std::string& method, Sets more) {
  more.push_back("model.use_attn_mask_compression=true");
  more.push_back("parallelism.context_parallel=" + std::to_string(degree));
  more.push_back("parallelism.context_parallel_method=" + method);
  return more;
}

const std::string kOverlap = "parallelism.pipeline_parallel_overlap_b_f=true";

const std::vector<std::string> kCases = {"qwen3_moe_aux64", "deepseek_v3_64"};

const std::vector<Layout> kLayouts = {
    // Experts whole on every rank.
    {"shard4", 4, {shard(-1), local_batch(2)}},
    {"tp2_shard2", 4, {tp(2), shard(-1), local_batch(1)}},
    {"pp2v2", 2, pp(2, 2, {local_batch(1)})},
    // All-to-all.
    {"ep2", 2, ep(2, {shard(-1), local_batch(4)})},
    {"ep4_accumulate2", 4, ep(4, {shard(-1), local_batch(1)})},
    {"ep8", 8, ep(8, {shard(-1), local_batch(1)})},
    {"ep2_efsdp4_always", 8, ep(2, {shard(-1), local_batch(1), policy("always")})},
    {"ep4_efsdp2_never", 8, ep(4, {shard(-1), local_batch(1), policy("never")})},
    {"tp2_ep4_efsdp4", 16, ep(4, {tp(2), shard(-1), local_batch(1)})},  // of two experts
    {"ep2_replicate2", 4, ep(2, {shard(2), local_batch(2)})},
    {"tp2_ep2", 2, ep(2, {tp(2), local_batch(8)})},
    {"tp2_ep4", 4, ep(4, {tp(2), shard(-1), local_batch(2)})},
    {"tp2_ep2_shard2_replicate2", 8, ep(2, {tp(2), shard(2), local_batch(1)})},
    {"pp2_ep2", 4, ep(2, pp(2, 1, {shard(-1), local_batch(2)}))},
    {"pp2v2_tp2_ep2", 4, ep(2, pp(2, 2, {tp(2), local_batch(2), kOverlap}))},
    {"cp2_ep2", 2, ep(2, cp(2, "colossal", {local_batch(4)}))},
    {"cp2_tp2_ep4", 4, ep(4, cp(2, "ulysses", {tp(2), local_batch(4)}))},
    {"pp2_cp2_ep2_shard2", 8, ep(2, pp(2, 1, cp(2, "colossal", {shard(-1), local_batch(2)})))},
    // De-redundancy.
    {"ep4_nodes2", 4, nodes(4, 2, {shard(-1), local_batch(1)})},
    {"ep8_nodes2", 8, nodes(8, 4, {shard(-1), local_batch(1)})},
    {"ep8_nodes4_tp2", 8, nodes(8, 2, {tp(2), shard(-1), local_batch(2)})},
    {"cp2_ep4_nodes2", 4, nodes(4, 2, cp(2, "ulysses", {shard(-1), local_batch(2)}))},
    {"ep4_one_node", 4, nodes(4, 4, {shard(-1), local_batch(2)})},
    {"pp2v2_ep4_nodes2", 8, nodes(4, 2, pp(2, 2, {shard(-1), local_batch(1)}))},
    // The page's scenes.
    {"scene_a",
     8,
     {shard(-1), tp(4), "parallelism.context_parallel=1", "parallelism.pipeline_parallel=1",
      "parallelism.expert_parallel=2", "parallelism.moe_token_dispatcher_type=alltoall",
      local_batch(2)}},
    {"scene_b", 16, nodes(8, 8, {shard(-1), tp(2), local_batch(1)})},
};

using Param = std::tuple<std::string, Layout>;
class ExpertParallel : public testing::TestWithParam<Param> {};

TEST_P(ExpertParallel, EqualsOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  const auto run = train(config, layout.ranks, config.training.steps);
  expect_same_training(*run, one_rank(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertParallel,
                         testing::Combine(testing::ValuesIn(kCases), testing::ValuesIn(kLayouts)),
                         case_and_layout_name);

// Without a loss for balance; the router's weights are normalised.
INSTANTIATE_TEST_SUITE_P(
    WithoutBalance, ExpertParallel,
    testing::Combine(testing::Values("qwen3_moe64"),
                     testing::Values(Layout{"ep8", 8, ep(8, {shard(-1), local_batch(1)})},
                                     Layout{"ep8_nodes2", 8,
                                            nodes(8, 4, {shard(-1), local_batch(1)})},
                                     Layout{"pp2v2_tp2_ep2", 4,
                                            ep(2, pp(2, 2, {tp(2), local_batch(2), kOverlap}))})),
    case_and_layout_name);

// Float32 sums in another order; the routes of these steps do not hang on it.
TEST(ExpertParallelFloat32, EqualsOneRank) {
  Sets set = {"training.steps=4"};
  for (const char* key :
       {"params", "embedding_params", "compute", "layernorm_compute", "rotary", "moe_router"}) {
    set.push_back("model." + (key + std::string("_dtype=float32")));
  }
  const auto reference = train(load_case("qwen3_moe_aux64", set, 1), 1, 4);
  for (const Sets& layout :
       {ep(4, {shard(-1), local_batch(2)}), nodes(4, 2, {shard(-1), local_batch(1)})}) {
    Sets all = set;
    all.insert(all.end(), layout.begin(), layout.end());
    const auto run = train(load_case("qwen3_moe_aux64", all, 4), 4, 4);
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(run->steps[i].tokens_per_expert, reference->steps[i].tokens_per_expert)
          << "a near-tie of the router went the other way in step " << i + 1;
    }
    expect_same_training(*run, *reference, 1e-5);
  }
}

TEST(ExpertCounts, EveryTokenHasItsChoices) {
  const RunRecord& run = one_rank("qwen3_moe_aux64");
  for (const StepMetrics& step : run.steps) {
    ASSERT_EQ(step.tokens_per_expert.size(), 4u);
    for (const auto& layer : step.tokens_per_expert) {
      EXPECT_EQ(std::accumulate(layer.begin(), layer.end(), int64_t{0}), 8 * 64 * 2);
    }
  }
}

// An expert starts from the same bits wherever it lives.
TEST(ExpertInitialValues, AreTheSameBitsInEveryLayout) {
  const Sets fresh = {"checkpoint.load_path=''", "lr_scheduler.learning_rate=0.0"};
  const auto reference = train(load_case("qwen3_moe64", fresh, 1), 1, 1);
  EXPECT_FALSE(at::equal(reference->values.at("model.layers.0.mlp.experts.0.up_proj.weight"),
                         reference->values.at("model.layers.0.mlp.experts.1.up_proj.weight")));
  for (const Sets& layout :
       {ep(4, {shard(-1), local_batch(2)}), ep(2, {tp(2), shard(-1), local_batch(2)}),
        Sets{shard(-1), local_batch(2)}}) {
    Sets all = fresh;
    all.insert(all.end(), layout.begin(), layout.end());
    const auto run = train(load_case("qwen3_moe64", all, 4), 4, 1);
    for (const std::string& name : reference->names) {
      EXPECT_TRUE(at::equal(run->values.at(name), reference->values.at(name))) << name;
    }
  }
}

TEST(ExpertBytes, ARankHoldsItsShareExactly) {
  const Config config = load_case("qwen3_moe64", ep(2, {shard(-1), local_batch(1)}), 8);
  run_ranks(8, [&](const ProcessGroup& world) {
    const DeviceMesh mesh(derive_dims(config, world.size()), world);
    const auto model = parallelize(config, mesh);
    int64_t here = 0;
    for (const auto& param : model->table.params()) {
      EXPECT_EQ(param->expert, param->name.find("{e}") != std::string::npos) << param->name;
      if (param->expert) here += param->value.numel();
    }
    EXPECT_EQ(here, 4 * 8 * 3 * 64 * 32 / (2 * 4));
  });
}

// What the two files above do not turn on: losses over other groups of tokens, biases that move,
// weights that are not normalised, some layers dense, fresh initial values.
struct Variant {
  std::string name;
  std::string file;
  Sets set;
  Layout layout;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

const Sets kFresh = {"checkpoint.load_path=''", "training.steps=4"};

class ExpertVariants : public testing::TestWithParam<Variant> {};

TEST_P(ExpertVariants, EqualsOneRank) {
  const Variant& v = GetParam();
  Sets one = kFresh, many = kFresh;
  one.insert(one.end(), v.set.begin(), v.set.end());
  many.insert(many.end(), v.layout.set.begin(), v.layout.set.end());
  many.insert(many.end(), v.set.begin(), v.set.end());
  const auto reference = train(load_case(v.file, one, 1), 1, 4);
  const auto run = train(load_case(v.file, many, v.layout.ranks), v.layout.ranks, 4);
  expect_same_training(*run, *reference, 1e-10);
}

const Layout kTpEp = {"tp2_ep4", 4, ep(4, {tp(2), shard(-1)})};
const Layout kNodes = {"nodes", 4, nodes(4, 2, {shard(-1)})};

INSTANTIATE_TEST_SUITE_P(
    Models, ExpertVariants,
    testing::Values(
        Variant{"aux_loss_z_loss",
                "qwen3_moe_aux64",
                {local_batch(2), "model.moe_router_load_balancing_type=aux_loss",
                 "model.moe_z_loss_coeff=0.003"},
                kTpEp},
        Variant{"global_aux_loss",
                "qwen3_moe_aux64",
                {"training.global_batch_size=4",
                 "model.moe_router_load_balancing_type=global_aux_loss"},
                {"ep2", 4, ep(2, {tp(2), shard(-1), local_batch(2)})}},
        Variant{
            "bias_moves",
            "deepseek_v3_64",
            {local_batch(2), "model.moe_router_bias_update_rate=0.03",
             "model.moe_aux_loss_coeff=0.02", "model.moe_router_load_balancing_type=seq_aux_loss"},
            kNodes},
        Variant{"full_rank_queries_half_rotary",
                "deepseek_v3_64",
                {local_batch(2), "model.q_lora_rank=null", "model.rope_interleave=false",
                 "model.attention_bias=true", "model.v_head_dim=12"},
                kTpEp},
        Variant{"mtp_pipeline",
                "deepseek_v3_64",
                {local_batch(2), "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3",
                 "model.moe_aux_loss_coeff=0.02"},
                {"pp2v2_ep2", 4, ep(2, pp(2, 2, {shard(-1)}))}},
        Variant{"mtp_tied_gated_tensor_parallel",
                "deepseek_v3_64",
                {local_batch(2), "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3",
                 "model.tie_word_embeddings=true", "model.use_shared_expert_gating=true"},
                {"pp2_tp2_ep2", 4, ep(2, pp(2, 1, {tp(2)}))}},
        Variant{"mtp_shard",
                "deepseek_v3_64",
                {local_batch(2), "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3"},
                {"tp2_ep4", 4, ep(4, {tp(2), shard(-1)})}},
        Variant{"mtp_over_sequence_slices",
                "deepseek_v3_64",
                {local_batch(2), "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3",
                 "model.moe_aux_loss_coeff=0.02", "model.moe_router_load_balancing_type=aux_loss"},
                {"cp4_ep4", 4, ep(4, cp(4, "colossal", {}))}},
        Variant{"mixed_layers_plain_weights",
                "qwen3_moe_aux64",
                {local_batch(2), "model.decoder_sparse_step=2", "model.norm_topk_prob=false",
                 "model.num_experts_per_tok=3"},
                kNodes},
        Variant{"weights_on_input",
                "qwen3_moe_aux64",
                {local_batch(2), "model.num_experts_per_tok=1", "model.norm_topk_prob=false",
                 "model.moe_apply_probs_on_input=true"},
                kTpEp},
        Variant{"two_experts_over_many",
                "qwen3_moe_aux64",
                {local_batch(1), "model.num_experts=4"},
                {"ep2_efsdp4", 8, ep(2, {shard(-1)})}},
        Variant{"forced_balance",
                "qwen3_moe_aux64",
                {local_batch(2), "model.moe_router_force_expert_balance=true"},
                kTpEp}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
