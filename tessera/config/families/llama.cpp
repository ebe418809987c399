#include "tessera/config/families/families.h"

namespace tessera::families {

// ModelConfig's own defaults are MindFormers' column of Qwen3, which serves for llama too.
Family llama() {
  Family f;
  f.model_type = "llama";
  f.architecture = "LlamaForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.fixed = {
      {"model.qk_layernorm", "false", "qwen3 has these norms"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_defaults = {{"model.head_dim", "0"}};  // hidden_size / num_attention_heads
  f.hf_implied = {{"model.qk_layernorm", "false"}};
  f.hf_keys = {"attention_bias", "head_dim", "mlp_bias"};
  return f;
}

}  // namespace tessera::families
