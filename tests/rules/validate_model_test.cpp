// One test per rule: the base file with one thing wrong. Model and experts.

#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using Sets = std::vector<std::string>;

// Experts.

TEST(ValidateModel, ExpertParallelDividesRanksAndExperts) {
  EXPECT_THAT(check_base(8, moe({"parallelism.expert_parallel=3"})),
              HasError("parallelism.expert_parallel",
                       "must divide dp_shard x cp x tp (8 x 1 x 1 = 8); experts are spread inside "
                       "one replica; nearest legal: 1, 2, 4, 8"));
  EXPECT_THAT(check_base(4, moe({"parallelism.expert_parallel=4", "model.num_experts=6"})),
              HasError("parallelism.expert_parallel",
                       "must divide n_routed_experts (6); nearest legal: 1, 2, 3, 6"));
  EXPECT_THAT(check_base(8, moe({"parallelism.expert_parallel=2", "model.num_experts=4"})),
              HasNoErrors());
  EXPECT_THAT(check_base(8, {"parallelism.expert_parallel=2"}),
              HasError("parallelism.expert_parallel", "must be 1 for llama"));
}

TEST(ValidateModel, DeredundancyNeedsWholeNodes) {
  const Sets sets = {"parallelism.moe_token_dispatcher_type=alltoall_deredundancy",
                     "parallelism.npu_nums_per_device=4"};
  const auto with = [&](const std::string& ep) {
    Sets all = moe(sets);
    all.push_back("parallelism.expert_parallel=" + ep);
    return all;
  };
  EXPECT_THAT(check_base(8, with("2")), HasError("parallelism.expert_parallel",
                                                 "must be a multiple of npu_nums_per_device (4)"));
  EXPECT_THAT(check_base(8, with("4")), HasNoErrors());
  EXPECT_THAT(check_base(6, moe({"parallelism.moe_token_dispatcher_type=alltoall_deredundancy",
                                 "parallelism.npu_nums_per_device=4", "model.num_experts=6",
                                 "training.global_batch_size=6", "parallelism.expert_parallel=6"})),
              HasError("parallelism.expert_parallel", "nearest legal: 4, 8"));
  const Checked checked = check_text(kBase, 8, with("4"));
  EXPECT_THAT(validate(checked.result.config, checked.result.provenance, 8, 8),
              HasWarning("parallelism.npu_nums_per_device", "the workers of a node are 8"));
}

TEST(ValidateModel, Router) {
  EXPECT_THAT(check_base(1, moe({"model.num_experts_per_tok=9"})),
              HasError("model.num_experts_per_tok", "must not exceed n_routed_experts (8)"));
  EXPECT_THAT(
      check_base(1, moe({"model.n_group=3", "model.topk_group=1"})),
      HasError("model.n_group", "must divide n_routed_experts (8); nearest legal: 1, 2, 4"));
  EXPECT_THAT(check_base(1, moe({"model.n_group=8", "model.topk_group=1"})),
              HasError("model.n_group", "two experts a group"));
  EXPECT_THAT(check_base(1, moe({"model.n_group=2", "model.topk_group=3"})),
              HasError("model.topk_group", "must not exceed n_group (2)"));
  EXPECT_THAT(
      check_base(1, moe({"model.n_group=4", "model.topk_group=1", "model.num_experts_per_tok=3"})),
      HasError("model.num_experts_per_tok", "experts of topk_group groups (2)"));
  EXPECT_THAT(check_base(1, moe({"model.topk_group=2"})),
              HasError("model.topk_group", "needs n_group"));
  EXPECT_THAT(check_base(1, moe({"model.moe_router_enable_expert_bias=true"})),
              HasError("model.moe_router_enable_expert_bias", "sigmoid or sqrtsoftplus"));
  EXPECT_THAT(check_base(1, moe({"model.moe_apply_probs_on_input=true"})),
              HasError("model.moe_apply_probs_on_input", "needs num_experts_per_tok 1"));
  EXPECT_THAT(check_base(1, moe({"model.num_experts_per_tok=1"})),
              HasWarning("model.norm_topk_prob", "no gradient"));
  EXPECT_THAT(check_base(1, {"model.model_type=qwen3_moe"}),
              HasError("model.n_routed_experts", "is needed for qwen3_moe"));
  EXPECT_THAT(check_base(1, {"model.num_experts=8"}),
              HasError("model.n_routed_experts", "must be 0 for llama"));
}

TEST(ValidateModel, AuxiliaryLoss) {
  EXPECT_THAT(check_base(1, moe({"model.moe_aux_loss_coeff=0.01"})), HasNoErrors());
  EXPECT_THAT(check_base(1, moe({"model.moe_router_load_balancing_type=sub_seq_aux_loss"})),
              HasNoErrors());
  EXPECT_THAT(check_base(1, moe({"model.moe_router_load_balancing_type=sub_seq_aux_loss",
                                 "model.moe_aux_loss_coeff=0.01"})),
              HasWarning("model.moe_router_load_balancing_type", "taken as seq_aux_loss"));
  const Sets global = moe(
      {"model.moe_router_load_balancing_type=global_aux_loss", "model.moe_aux_loss_coeff=0.01"});
  EXPECT_THAT(check_base(8, global), HasNoErrors());
  EXPECT_THAT(check_base(4, global),
              HasError("model.moe_router_load_balancing_type",
                       "global_aux_loss needs one micro-batch a step (here 2)"));
}

TEST(ValidateModel, LayersWithExperts) {
  EXPECT_THAT(check_base(1, moe({"model.moe_layer_freq=0"})),
              HasError("model.moe_layer_freq", "must be at least 1"));
  EXPECT_THAT(check_base(1, moe({"model.moe_layer_freq=[0, 1, 1]"})),
              HasError("model.moe_layer_freq", "needs one entry a layer (4), has 3"));
  EXPECT_THAT(check_base(1, moe({"model.moe_layer_freq=[0, 1, 2, 1]"})),
              HasError("model.moe_layer_freq", "entries must be 0 (dense) or 1"));
  EXPECT_THAT(check_base(1, deepseek({"model.moe_layer_freq=2"})),
              HasError("model.moe_layer_freq", "must be 1 with first_k_dense_replace"));
  EXPECT_THAT(check_base(1, deepseek({"model.moe_layer_freq=[1, 1, 1, 1]"})),
              HasError("model.moe_layer_freq", "contradicts first_k_dense_replace at layer 0"));
  EXPECT_THAT(check_base(1, deepseek({"model.moe_layer_freq=[0, 1, 1, 1]"})), HasNoErrors());
  EXPECT_THAT(check_base(1, deepseek({"model.first_k_dense_replace=5"})),
              HasError("model.first_k_dense_replace", "must not exceed num_hidden_layers (4)"));
  EXPECT_THAT(check_base(1, moe({"model.mlp_only_layers=[4]"})),
              HasError("model.mlp_only_layers", "names layer 4 of 4"));
}

// Model.

TEST(ValidateModel, Heads) {
  EXPECT_THAT(check_base(1, {"model.num_key_value_heads=3"}),
              HasError("model.num_key_value_heads",
                       "must divide num_attention_heads (8); nearest legal: 1, 2, 4, 8"));
  EXPECT_THAT(check_base(1, {"model.head_dim=7"}), HasError("model.head_dim", "must be even"));
  EXPECT_THAT(check_base(1, deepseek({"model.num_key_value_heads=4"})),
              HasError("model.num_key_value_heads", "must be num_attention_heads (8)"));
}

TEST(ValidateModel, LatentAttention) {
  EXPECT_THAT(check_base(1, deepseek({"model.qk_rope_head_dim=7"})),
              HasError("model.qk_rope_head_dim", "must be even"));
  EXPECT_THAT(
      check_base(1, deepseek({"model.v_head_dim=32"})),
      HasError("model.v_head_dim", "must not exceed qk_nope_head_dim + qk_rope_head_dim (24)"));
  EXPECT_THAT(check_base(1, deepseek({"model.q_lora_rank=null"})), HasNoErrors());
}

TEST(ValidateModel, RotaryScaling) {
  EXPECT_THAT(check_base(1, {"model.head_dim=7"}),
              HasError("model.head_dim",
                       "must be even for the rotary embedding; nearest legal: "
                       "6, 8"));
  EXPECT_THAT(check_base(1, {"model.head_dim=1"}), HasError("model.head_dim", "nearest legal: 2"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: linear}"}),
              HasError("model.rope_scaling.factor", "is needed with rope_type linear"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={type: linear, factor: 2}"}), HasNoErrors());
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: spiral, factor: 2}"}),
              HasError("model.rope_scaling.rope_type", "must be one of default, linear, "));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: spiral}"}),
              testing::Not(HasError("model.rope_scaling.factor", "is needed")));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: linear, factor: 0.5}"}),
              HasError("model.rope_scaling.factor", "must be at least 1"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: llama3, factor: 8}"}),
              HasError("model.rope_scaling.original_max_position_embeddings", "is needed"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: llama3, factor: 8, "
                             "low_freq_factor: 4, original_max_position_embeddings: 64}"}),
              HasError("model.rope_scaling.low_freq_factor", "must be below high_freq_factor"));
  EXPECT_THAT(
      check_base(1, {"model.position_embedding_type=yarn",
                     "model.rope_scaling={rope_type: linear, factor: 2}"}),
      HasError("model.position_embedding_type", "does not fit model.rope_scaling.rope_type"));
  EXPECT_THAT(check_base(1, deepseek({"model.rope_scaling={type: yarn, factor: 4}",
                                      "model.rotary_scaling_factor=8.0"})),
              HasError("model.rotary_scaling_factor", "must agree with rope_scaling"));
}

TEST(ValidateModel, FamilyKeys) {
  EXPECT_THAT(check_base(1, {"model.model_type=gpt2"}),
              HasError("model.model_type", "must be one of " + builtin_families().names()));
  EXPECT_THAT(check_base(1, {"model.qk_layernorm=true"}),
              HasError("model.qk_layernorm", "must be false for llama"));
  EXPECT_THAT(check_base(1, {"model.model_type=qwen3", "model.mlp_bias=true"}),
              HasError("model.mlp_bias", "must be false for qwen3"));
  EXPECT_THAT(check_base(1, {"model.model_type=qwen3", "model.qk_layernorm=false"}),
              HasWarning("model.qk_layernorm", "always norms"));
  EXPECT_THAT(check_base(1, {"model.architectures=Qwen3ForCausalLM"}),
              HasError("model.model_type", "does not fit architectures = Qwen3ForCausalLM"));
  EXPECT_THAT(check_base(1, {"model.architectures=GPT2LMHeadModel"}),
              HasError("model.architectures", "must be one of LlamaForCausalLM"));
  EXPECT_THAT(check_base(1, {"model.num_nextn_predict_layers=1"}),
              HasError("model.num_nextn_predict_layers", "must be 0 for llama"));
  EXPECT_THAT(check_base(1, deepseek({"model.num_nextn_predict_layers=1"})),
              HasError("model.mtp_loss_factor", "is needed"));
  EXPECT_THAT(check_base(1, {"model.compute_dtype=float16"}),
              HasError("model.compute_dtype", "without loss scaling"));
}

// Groups of experts.

TEST(ValidateModel, NoGroupsAreWrittenAsZero) {
  const Checked none = check_text(kBase, 1, moe({"model.n_group=0", "model.topk_group=0"}));
  EXPECT_THAT(none.issues, HasNoErrors());
  EXPECT_EQ(none.result.config.model.n_group, std::nullopt);
  EXPECT_EQ(none.result.config.model.topk_group, std::nullopt);
  // The family's default of the other key goes with it.
  const Checked half = check_text(kBase, 1, deepseek({"model.n_group=0", "model.topk_group=null"}));
  EXPECT_THAT(half.issues, HasNoErrors());
  EXPECT_EQ(half.result.config.model.topk_group, std::nullopt);
  EXPECT_THAT(check_base(1, moe({"model.n_group=0", "model.topk_group=2"})),
              HasError("model.topk_group", "needs n_group"));
}

TEST(ValidateModel, LatentAttentionIsTheFamilys) {
  EXPECT_THAT(check_base(1, deepseek({"model.multi_latent_attention=true"})), HasNoErrors());
  EXPECT_THAT(check_base(1, deepseek({"model.multi_latent_attention=false"})),
              HasError("model.multi_latent_attention", "must be true for deepseek_v3"));
  EXPECT_THAT(check_base(1, {"model.multi_latent_attention=true"}),
              HasError("model.multi_latent_attention", "must be false for llama"));
}

TEST(ValidateModel, AuxiliaryLossOverMicroBatches) {
  EXPECT_THAT(check_base(1, moe({"model.moe_router_load_balancing_type=gbs_aux_loss"})),
              HasNoErrors());
  EXPECT_THAT(check_base(1, moe({"model.moe_router_load_balancing_type=gbs_aux_loss",
                                 "model.moe_aux_loss_coeff=0.1"})),
              HasError("model.moe_router_load_balancing_type", "global_aux_loss"));
}

TEST(ValidateModel, RulesOfInitialDeviations) {
  const auto with = [](const std::string& rules) {
    return check_base(1, moe({"model.param_init_std_rules=" + rules}));
  };
  const std::string field = "model.param_init_std_rules";
  EXPECT_THAT(with("[{target: 'lm_head', init_method_std: 0.1}]"), HasNoErrors());
  EXPECT_THAT(with("[{target: '.*linear_proj', init_method_std: 0.1}]"), HasNoErrors());
  EXPECT_THAT(with("[{target: 'head', init_method_std: 0.1}]"),
              HasError(field + "[0]", "matches no weight that starts random"));
  EXPECT_THAT(with("[{target: 'model.norm', init_method_std: 0.1}]"),
              HasError(field + "[0]", "matches no weight that starts random"));
  EXPECT_THAT(with("[{target: '(', init_method_std: 0.1}]"),
              HasError(field + "[0]", "is no regular expression"));
  EXPECT_THAT(with("[{target: lm_head, init_method_std: -1.0}]"),
              HasError(field + "[0]", "must be at least 0"));
  EXPECT_THAT(with("[{target: '.*experts[.]3[.]', init_method_std: 0.1}]"),
              HasError(field + "[0]", "matches 1 of the 8 experts of layer 0"));
  EXPECT_THAT(with("[{target: lm_head}]"), HasError(field, "target and init_method_std"));
}

}  // namespace
}  // namespace tessera
