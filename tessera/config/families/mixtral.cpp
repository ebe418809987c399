#include "tessera/config/families/families.h"

namespace tessera::families {

Family mixtral() {
  Family f;
  f.model_type = "mixtral";
  f.architecture = "MixtralForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.design.biases = {Presence::kNever, Presence::kNever, Presence::kNever};
  f.design.has_windows = true;
  f.design.weight_names = {
      {ParamRole::kRouter, "block_sparse_moe.gate.weight"},
      {ParamRole::kExpertGate, "block_sparse_moe.experts.{e}.w1.weight"},
      {ParamRole::kExpertUp, "block_sparse_moe.experts.{e}.w3.weight"},
      {ParamRole::kExpertDown, "block_sparse_moe.experts.{e}.w2.weight"},
  };
  f.has_experts = true;
  f.defaults.vocab_size = 32000;
  f.defaults.intermediate_size = 14336;
  f.defaults.num_key_value_heads = 8;
  f.defaults.rms_norm_eps = 1e-5;
  f.fixed = {
      {"model.attention_bias", "false", "qwen2 has biases"},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.qk_layernorm", "false", "qwen3_moe has these norms"},
      {"model.n_shared_experts", "0", "deepseek_v3 has shared experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_defaults = {{"model.head_dim", "0"}};  // hidden_size / num_attention_heads
  f.hf_implied = {{"model.qk_layernorm", "false"},
                  {"model.norm_topk_prob", "true"},
                  {"model.moe_router_score_function", "softmax"},
                  {"model.moe_router_enable_expert_bias", "false"}};
  f.hf_keys = {"head_dim",
               "sliding_window",
               "num_local_experts",
               "num_experts_per_tok",
               "router_aux_loss_coef",
               "output_router_logits"};
  return f;
}

}  // namespace tessera::families
