#include "tessera/config/family.h"

namespace tessera {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {
      {"llama", "LlamaForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},
      {"qwen3_moe", "Qwen3MoeForCausalLM"},
      {"deepseek_v3", "DeepseekV3ForCausalLM"},
  };
  return families;
}

std::string architecture_of(std::string_view model_type) {
  for (const Family& family : all_families()) {
    if (family.model_type == model_type) return std::string(family.architecture);
  }
  return "";
}

std::string model_type_of(std::string_view architecture) {
  for (const Family& family : all_families()) {
    if (family.architecture == architecture) return std::string(family.model_type);
  }
  return "";
}

ModelConfig family_defaults(std::string_view model_type) {
  ModelConfig model;  // the struct's own defaults are the column of Qwen3
  model.model_type = model_type;
  if (model_type == "qwen3" || model_type == "qwen3_moe") {
    model.qk_layernorm = true;
    model.pad_token_id = 151643;
  }
  if (model_type == "deepseek_v3") {
    model.vocab_size = 129280;
    model.hidden_size = 7168;
    model.intermediate_size = 18432;
    model.num_hidden_layers = 61;
    model.num_attention_heads = 128;
    model.num_key_value_heads = 128;
    model.max_position_embeddings = 4096;
    model.q_lora_rank = 1536;
    model.n_routed_experts = 256;
    model.num_experts_per_tok = 8;
    model.n_shared_experts = 1;
    model.moe_intermediate_size = 2048;
    model.n_group = 8;
    model.topk_group = 4;
    model.routed_scaling_factor = 2.5;
    model.first_k_dense_replace = 3;
    model.moe_router_score_function = "sigmoid";
    model.moe_router_enable_expert_bias = true;
  }
  return model;
}

void apply_hf_defaults(std::string_view model_type, ModelConfig& model) {
  if (model_type == "llama" || model_type == "qwen3_moe") {
    model.head_dim = 0;  // hidden_size / num_attention_heads
  }
  if (model_type == "qwen3_moe") model.norm_topk_prob = false;
}

std::vector<std::pair<std::string_view, std::string_view>> hf_implied(std::string_view model_type) {
  if (model_type == "llama") return {{"model.qk_layernorm", "false"}};
  if (model_type == "qwen3") return {{"model.qk_layernorm", "true"}};
  if (model_type == "qwen3_moe") {
    return {{"model.qk_layernorm", "true"},
            {"model.moe_router_score_function", "softmax"},
            {"model.moe_router_enable_expert_bias", "false"}};
  }
  if (model_type == "deepseek_v3") {
    return {{"model.qk_layernorm", "true"},
            {"model.moe_router_score_function", "sigmoid"},
            {"model.moe_router_enable_expert_bias", "true"}};
  }
  return {};
}

}  // namespace tessera
