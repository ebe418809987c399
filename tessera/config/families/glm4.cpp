#include "tessera/config/families/families.h"

namespace tessera::families {

// GLM-4: norms before and after both branches; half of a head turns, neighbours as pairs.
Family glm4() {
  Family f;
  f.model_type = "glm4";
  f.architecture = "Glm4ForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kAfterAttention, "post_self_attn_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"},
                    {NormPlace::kAfterMlp, "post_mlp_layernorm"}};
  f.design.biases = {Presence::kAsAsked, Presence::kNever, Presence::kNever};
  f.design.rotary_pairs_neighbours = true;
  f.design.stacks = {{"mlp.gate_up_proj.weight", {ParamRole::kMlpGate, ParamRole::kMlpUp}}};
  f.defaults.vocab_size = 151552;
  f.defaults.intermediate_size = 13696;
  f.defaults.num_hidden_layers = 40;
  f.defaults.num_key_value_heads = 2;
  f.defaults.rms_norm_eps = 1.5625e-7;
  f.defaults.partial_rotary_factor = 0.5;
  f.defaults.attention_bias = true;
  f.defaults.pad_token_id = 151329;
  f.fixed = {
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.qk_layernorm", "false", "glm4_moe can have these norms"},
      {"model.n_routed_experts", "0", "glm4_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_implied = {{"model.qk_layernorm", "false"}};
  f.hf_keys = {"attention_bias", "head_dim", "partial_rotary_factor"};
  return f;
}

// GLM-4.5: experts behind first dense layers, a sigmoid router whose bias steers the choice.
Family glm4_moe() {
  Family f;
  f.model_type = "glm4_moe";
  f.architecture = "Glm4MoeForCausalLM";
  f.design.biases = {Presence::kAsAsked, Presence::kNever, Presence::kNever};
  f.has_experts = true;
  f.defaults.vocab_size = 151552;
  f.defaults.intermediate_size = 10944;
  f.defaults.num_hidden_layers = 46;
  f.defaults.num_attention_heads = 96;
  f.defaults.num_key_value_heads = 8;
  f.defaults.rms_norm_eps = 1e-5;
  f.defaults.partial_rotary_factor = 0.5;
  f.defaults.n_routed_experts = 128;
  f.defaults.num_experts_per_tok = 8;
  f.defaults.n_shared_experts = 1;
  f.defaults.moe_intermediate_size = 1408;
  f.defaults.first_k_dense_replace = 1;
  f.defaults.moe_router_score_function = "sigmoid";
  f.defaults.moe_router_enable_expert_bias = true;
  f.fixed = {{"model.mlp_bias", "false", "llama can have it"}};
  f.hf_defaults = {{"model.head_dim", "0"},  // hidden_size / num_attention_heads
                   {"model.qk_layernorm", "false"}};
  f.hf_implied = {{"model.moe_router_score_function", "sigmoid"},
                  {"model.moe_router_enable_expert_bias", "true"}};
  f.hf_keys = {"attention_bias",
               "head_dim",
               "partial_rotary_factor",
               "use_qk_norm",
               "num_experts_per_tok",
               "moe_intermediate_size",
               "norm_topk_prob",
               "n_routed_experts",
               "n_shared_experts",
               "n_group",
               "topk_group",
               "routed_scaling_factor",
               "first_k_dense_replace",
               "num_nextn_predict_layers"};
  return f;
}

}  // namespace tessera::families
