#include "tessera/config/families/families.h"

namespace tessera::families {

// Phi-3 and Phi-4: q, k and v are one matrix of the file, gate and up another.
Family phi3() {
  Family f;
  f.model_type = "phi3";
  f.architecture = "Phi3ForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.design.biases = {Presence::kNever, Presence::kNever, Presence::kNever};
  f.design.has_windows = true;
  f.design.stacks = {
      {"self_attn.qkv_proj.weight", {ParamRole::kAttnQ, ParamRole::kAttnK, ParamRole::kAttnV}},
      {"mlp.gate_up_proj.weight", {ParamRole::kMlpGate, ParamRole::kMlpUp}},
  };
  f.defaults.vocab_size = 32064;
  f.defaults.hidden_size = 3072;
  f.defaults.intermediate_size = 8192;
  f.defaults.head_dim = 0;  // hidden_size / num_attention_heads
  f.defaults.rms_norm_eps = 1e-5;
  f.defaults.pad_token_id = 32000;
  f.fixed = {
      {"model.attention_bias", "false", "qwen2 has biases"},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.qk_layernorm", "false", "qwen3 has these norms"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_implied = {{"model.qk_layernorm", "false"}};
  f.hf_keys = {"sliding_window", "partial_rotary_factor", "original_max_position_embeddings"};
  return f;
}

}  // namespace tessera::families
