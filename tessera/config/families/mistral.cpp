#include "tessera/config/families/families.h"

namespace tessera::families {

Family mistral() {
  Family f;
  f.model_type = "mistral";
  f.architecture = "MistralForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.design.biases = {Presence::kNever, Presence::kNever, Presence::kNever};
  f.design.has_windows = true;
  f.defaults.vocab_size = 32000;
  f.defaults.intermediate_size = 14336;
  f.defaults.num_key_value_heads = 8;
  f.fixed = {
      {"model.attention_bias", "false", "qwen2 has biases"},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.qk_layernorm", "false", "qwen3 has these norms"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_defaults = {{"model.head_dim", "0"},  // hidden_size / num_attention_heads
                   {"model.sliding_window", "4096"}};
  f.hf_implied = {{"model.qk_layernorm", "false"}};
  f.hf_keys = {"head_dim", "sliding_window"};
  return f;
}

}  // namespace tessera::families
