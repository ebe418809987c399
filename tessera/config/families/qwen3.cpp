#include "tessera/config/families/families.h"

namespace tessera::families {

Family qwen3() {
  Family f;
  f.model_type = "qwen3";
  f.architecture = "Qwen3ForCausalLM";
  f.design.biases.mlp = Presence::kNever;
  f.design.has_windows = true;
  f.design.asks_for_window = true;
  f.defaults.qk_layernorm = true;
  f.defaults.pad_token_id = 151643;
  f.fixed = {
      {"model.qk_layernorm", "true", "qwen3 always norms q and k", /*only_warn=*/true},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_implied = {{"model.qk_layernorm", "true"}};
  f.hf_keys = {"attention_bias", "head_dim", "use_sliding_window", "sliding_window",
               "max_window_layers"};
  return f;
}

}  // namespace tessera::families
