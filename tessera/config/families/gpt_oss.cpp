#include "tessera/config/families/families.h"

namespace tessera::families {

// gpt-oss: sinks, every second layer with a window, biases everywhere, experts with a clamped gate.
Family gpt_oss() {
  using enum ParamRole;
  Family f;
  f.model_type = "gpt_oss";
  f.architecture = "GptOssForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.design.biases = {Presence::kAsAsked, Presence::kAsAsked, Presence::kNever, Presence::kAlways,
                     Presence::kAlways};
  f.design.attention_sinks = true;
  f.design.gate_slope = 1.702;
  f.design.up_shift = 1.0;
  f.design.has_windows = true;
  f.design.full_attention_every = 2;
  f.design.weight_names = {{kRouter, "mlp.router.weight"}, {kRouterOffset, "mlp.router.bias"}};
  f.design.stacks = {
      {"mlp.experts.gate_up_proj",
       {kExpertGate, kExpertUp},
       /*transposed=*/true,
       /*alternating=*/true},
      {"mlp.experts.gate_up_proj_bias", {kExpertGateBias, kExpertUpBias}, false, true},
      {"mlp.experts.down_proj", {kExpertDown}, true, false},
      {"mlp.experts.down_proj_bias", {kExpertDownBias}, false, false},
  };
  f.has_experts = true;
  f.defaults.vocab_size = 201088;
  f.defaults.hidden_size = 2880;
  f.defaults.intermediate_size = 2880;
  f.defaults.num_hidden_layers = 36;
  f.defaults.num_attention_heads = 64;
  f.defaults.num_key_value_heads = 8;
  f.defaults.head_dim = 64;
  f.defaults.rms_norm_eps = 1e-5;
  f.defaults.rope_theta = 150000.0;
  f.defaults.attention_bias = true;
  f.defaults.sliding_window = 128;
  f.defaults.activation_func_clamp_value = 7.0;
  f.defaults.n_routed_experts = 128;
  f.defaults.num_experts_per_tok = 4;
  f.fixed = {
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.qk_layernorm", "false", "qwen3_moe has these norms"},
      {"model.n_shared_experts", "0", "deepseek_v3 has shared experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
      {"model.norm_topk_prob", "true", "the softmax is over the chosen experts"},
      {"model.moe_router_score_function", "softmax", "the softmax is over the chosen experts"},
  };
  f.hf_implied = {{"model.qk_layernorm", "false"},
                  {"model.norm_topk_prob", "true"},
                  {"model.moe_router_score_function", "softmax"},
                  {"model.moe_router_enable_expert_bias", "false"}};
  f.hf_keys = {"attention_bias",      "head_dim",          "sliding_window",
               "layer_types",         "num_local_experts", "num_experts_per_tok",
               "swiglu_alpha",        "swiglu_limit",      "router_aux_loss_coef",
               "output_router_logits"};
  return f;
}

}  // namespace tessera::families
