#include "tessera/config/families/families.h"

namespace tessera::families {

namespace {

ModelConfig defaults() {
  ModelConfig m;
  m.vocab_size = 129280;
  m.hidden_size = 7168;
  m.intermediate_size = 18432;
  m.num_hidden_layers = 61;
  m.num_attention_heads = 128;
  m.num_key_value_heads = 128;
  m.max_position_embeddings = 4096;
  m.q_lora_rank = 1536;
  m.n_routed_experts = 256;
  m.num_experts_per_tok = 8;
  m.n_shared_experts = 1;
  m.moe_intermediate_size = 2048;
  m.n_group = 8;
  m.topk_group = 4;
  m.routed_scaling_factor = 2.5;
  m.first_k_dense_replace = 3;
  m.moe_router_score_function = "sigmoid";
  m.moe_router_enable_expert_bias = true;
  return m;
}

}  // namespace

Family deepseek_v3() {
  Family f;
  f.model_type = "deepseek_v3";
  f.architecture = "DeepseekV3ForCausalLM";
  f.design.attention = AttentionKind::kLatent;
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kQuery, "self_attn.q_a_layernorm"},
                    {NormPlace::kKey, "self_attn.kv_a_layernorm"},
                    {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  f.design.biases.mlp = Presence::kNever;
  f.has_experts = true;
  f.defaults = defaults();
  f.fixed = {{"model.mlp_bias", "false", "llama can have it"}};
  f.hf_implied = {{"model.qk_layernorm", "true"},
                  {"model.moe_router_score_function", "sigmoid"},
                  {"model.moe_router_enable_expert_bias", "true"}};
  f.hf_keys = {"attention_bias",
               "q_lora_rank",
               "kv_lora_rank",
               "qk_nope_head_dim",
               "qk_rope_head_dim",
               "v_head_dim",
               "rope_interleave",
               "num_nextn_predict_layers",
               "num_experts_per_tok",
               "moe_intermediate_size",
               "norm_topk_prob",
               "n_routed_experts",
               "n_shared_experts",
               "n_group",
               "topk_group",
               "routed_scaling_factor",
               "first_k_dense_replace",
               "moe_layer_freq",
               "scoring_func",
               "topk_method"};
  return f;
}

}  // namespace tessera::families
