#include "tessera/config/families/families.h"

namespace tessera::families {

// Qwen2 and Qwen2.5.
Family qwen2() {
  Family f;
  f.model_type = "qwen2";
  f.architecture = "Qwen2ForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.design.biases = {Presence::kAlways, Presence::kNever, Presence::kNever};
  f.design.has_windows = true;
  f.design.asks_for_window = true;
  f.defaults.attention_bias = true;
  f.defaults.pad_token_id = 151643;
  f.fixed = {
      {"model.attention_bias", "true", "q, k and v have biases, and o has none"},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.qk_layernorm", "false", "qwen3 has these norms"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_defaults = {{"model.head_dim", "0"}};  // hidden_size / num_attention_heads
  f.hf_implied = {{"model.attention_bias", "true"}, {"model.qk_layernorm", "false"}};
  f.hf_keys = {"head_dim", "use_sliding_window", "sliding_window", "max_window_layers"};
  return f;
}

}  // namespace tessera::families
