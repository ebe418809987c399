#include "tessera/config/families/families.h"

namespace tessera::families {

// OLMo 2: no norm before a branch, one after it; q and k are normed over all heads together.
Family olmo2() {
  Family f;
  f.model_type = "olmo2";
  f.architecture = "Olmo2ForCausalLM";
  f.design.norms = {{NormPlace::kQuery, "self_attn.q_norm"},
                    {NormPlace::kKey, "self_attn.k_norm"},
                    {NormPlace::kAfterAttention, "post_attention_layernorm"},
                    {NormPlace::kAfterMlp, "post_feedforward_layernorm"}};
  f.design.qk_norm_span = QkNormSpan::kAllHeads;
  f.design.biases.mlp = Presence::kNever;
  f.defaults.vocab_size = 50304;
  f.defaults.intermediate_size = 11008;
  f.defaults.head_dim = 0;  // hidden_size / num_attention_heads
  f.defaults.rms_norm_eps = 1e-5;
  f.defaults.rope_theta = 500000.0;
  f.defaults.qk_layernorm = true;
  f.fixed = {
      {"model.qk_layernorm", "true", "olmo2 always norms q and k", /*only_warn=*/true},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_implied = {{"model.qk_layernorm", "true"}};
  f.hf_keys = {"attention_bias"};
  return f;
}

// OLMo 3: as OLMo 2, and three of four layers have a window, without scaling of their rope.
Family olmo3() {
  Family f = olmo2();
  f.model_type = "olmo3";
  f.architecture = "Olmo3ForCausalLM";
  f.design.has_windows = true;
  f.design.full_attention_every = 4;
  f.design.plain_window_rope = true;
  f.defaults.sliding_window = 4096;
  f.fixed[0].reason = "olmo3 always norms q and k";
  f.hf_keys = {"attention_bias", "sliding_window", "layer_types"};
  return f;
}

}  // namespace tessera::families
