#include "tessera/config/families/families.h"

namespace tessera::families {

Family qwen3_moe() {
  Family f;
  f.model_type = "qwen3_moe";
  f.architecture = "Qwen3MoeForCausalLM";
  f.design.biases.mlp = Presence::kNever;
  f.has_experts = true;
  f.design.has_windows = true;
  f.design.asks_for_window = true;
  f.defaults.qk_layernorm = true;
  f.defaults.pad_token_id = 151643;
  f.fixed = {
      {"model.qk_layernorm", "true", "qwen3_moe always norms q and k", /*only_warn=*/true},
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.n_shared_experts", "0", "deepseek_v3 has shared experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_defaults = {{"model.head_dim", "0"},  // hidden_size / num_attention_heads
                   {"model.norm_topk_prob", "false"}};
  f.hf_implied = {{"model.qk_layernorm", "true"},
                  {"model.moe_router_score_function", "softmax"},
                  {"model.moe_router_enable_expert_bias", "false"}};
  f.hf_keys = {"attention_bias",        "head_dim",          "use_sliding_window",
               "sliding_window",        "max_window_layers", "num_experts_per_tok",
               "moe_intermediate_size", "norm_topk_prob",    "num_experts",
               "decoder_sparse_step",   "mlp_only_layers",   "router_aux_loss_coef",
               "output_router_logits"};
  return f;
}

}  // namespace tessera::families
