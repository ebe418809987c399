#include "tessera/config/hf_config_writer.h"

#include <nlohmann/json.hpp>

#include "tessera/config/family.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json rope_scaling(const ModelConfig& m) {
  const RopeScaling& rope = m.rope_scaling;
  if (rope.rope_type == "default") return nullptr;
  Json scaling = {{"rope_type", rope.rope_type}, {"factor", rope.factor}};
  if (rope.rope_type == "llama3") {
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.original_max_position_embeddings) {
    scaling["original_max_position_embeddings"] = *rope.original_max_position_embeddings;
  }
  if (rope.rope_type == "yarn") {
    scaling["beta_fast"] = rope.beta_fast;
    scaling["beta_slow"] = rope.beta_slow;
    if (rope.mscale) scaling["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) scaling["mscale_all_dim"] = *rope.mscale_all_dim;
    if (rope.attention_factor) scaling["attention_factor"] = *rope.attention_factor;
    scaling["truncate"] = rope.truncate;
  }
  return scaling;
}

void add_experts(const ModelConfig& m, Json& json) {
  json["num_experts_per_tok"] = m.num_experts_per_tok;
  json["moe_intermediate_size"] = m.moe_intermediate_size;
  json["norm_topk_prob"] = m.norm_topk_prob;
  if (m.model_type == "qwen3_moe") {
    json["num_experts"] = m.n_routed_experts;
    json["decoder_sparse_step"] = m.decoder_sparse_step;
    json["mlp_only_layers"] = m.mlp_only_layers;
    json["router_aux_loss_coef"] = m.moe_aux_loss_coeff;
    json["output_router_logits"] = false;
    return;
  }
  json["n_routed_experts"] = m.n_routed_experts;
  json["n_shared_experts"] = m.n_shared_experts;
  json["n_group"] = or_null(m.n_group);
  json["topk_group"] = or_null(m.topk_group);
  json["routed_scaling_factor"] = m.routed_scaling_factor;
  json["first_k_dense_replace"] = m.first_k_dense_replace;
  if (const auto* every = std::get_if<int64_t>(&m.moe_layer_freq)) {
    json["moe_layer_freq"] = *every;
  } else {
    json["moe_layer_freq"] = std::get<std::vector<int64_t>>(m.moe_layer_freq);
  }
  json["scoring_func"] = m.moe_router_score_function;
  json["topk_method"] = "noaux_tc";
}

}  // namespace

std::string hf_config_json(const ModelConfig& m, DType dtype) {
  Json json = {
      {"architectures", {architecture_of(m.model_type)}},
      {"model_type", m.model_type},
      {"dtype", to_string(dtype)},
      {"vocab_size", m.vocab_size},
      {"hidden_size", m.hidden_size},
      {"intermediate_size", m.intermediate_size},
      {"num_hidden_layers", m.num_hidden_layers},
      {"num_attention_heads", m.num_attention_heads},
      {"num_key_value_heads", m.num_key_value_heads},
      {"hidden_act", m.hidden_act},
      {"rms_norm_eps", m.rms_norm_eps},
      {"max_position_embeddings", m.max_position_embeddings},
      {"rope_theta", m.rope_theta},
      {"rope_scaling", rope_scaling(m)},
      {"attention_bias", m.attention_bias},
      {"attention_dropout", m.attention_dropout},
      {"initializer_range", m.initializer_range},
      {"tie_word_embeddings", m.tie_word_embeddings},
      {"use_cache", true},
  };
  if (m.is_mla()) {
    json["q_lora_rank"] = or_null(m.q_lora_rank);
    json["kv_lora_rank"] = m.kv_lora_rank;
    json["qk_nope_head_dim"] = m.qk_nope_head_dim;
    json["qk_rope_head_dim"] = m.qk_rope_head_dim;
    json["v_head_dim"] = m.v_head_dim;
    json["rope_interleave"] = m.rope_interleave;
    json["num_nextn_predict_layers"] = m.num_nextn_predict_layers;
  } else {
    json["head_dim"] = m.head_dim;
  }
  if (m.model_type == "llama") json["mlp_bias"] = m.mlp_bias;
  if (m.model_type.starts_with("qwen3")) {
    json["use_sliding_window"] = false;
    json["sliding_window"] = nullptr;
  }
  if (m.is_moe()) add_experts(m, json);
  return json.dump(2) + "\n";
}

}  // namespace tessera
