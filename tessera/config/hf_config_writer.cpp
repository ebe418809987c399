#include "tessera/config/hf_config_writer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/config/families/alike.h"
#include "tessera/config/family.h"
#include "tessera/config/paths.h"
#include "tessera/config/published_keys.h"

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
  if (rope.rope_type == "longrope") {
    scaling.erase("factor");
    scaling["short_factor"] = rope.short_factor;
    scaling["long_factor"] = rope.long_factor;
    if (rope.attention_factor) scaling["attention_factor"] = *rope.attention_factor;
  }
  return scaling;
}

// Layers with a window and without, as the model has them.
Json layer_types(const ModelConfig& m) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    types.push_back(m.window_of(layer) > 0 ? kWindowedLayer : kFullLayer);
  }
  return types;
}

// Without a window it means nothing and stays as it is.
int64_t first_windowed_layer(const ModelConfig& m) {
  int64_t layer = 0;
  while (layer < m.num_hidden_layers && m.window_of(layer) == 0) ++layer;
  return layer < m.num_hidden_layers ? layer : m.max_window_layers.value_or(layer);
}

Json moe_layer_freq(const ModelConfig& m) {
  if (const auto* every = std::get_if<int64_t>(&m.moe_layer_freq)) return *every;
  return std::get<std::vector<int64_t>>(m.moe_layer_freq);
}

struct Key {
  const char* name;
  Json (*value)(const ModelConfig&);
  bool in_every_family = false;
};

// In the order of the file.
constexpr bool kInEveryFamily = true;
const Key kKeys[] = {
    {"vocab_size", [](const ModelConfig& m) { return Json(m.vocab_size); }, kInEveryFamily},
    {"hidden_size", [](const ModelConfig& m) { return Json(m.hidden_size); }, kInEveryFamily},
    {"intermediate_size", [](const ModelConfig& m) { return Json(m.intermediate_size); },
     kInEveryFamily},
    {"num_hidden_layers", [](const ModelConfig& m) { return Json(m.num_hidden_layers); },
     kInEveryFamily},
    {"num_attention_heads", [](const ModelConfig& m) { return Json(m.num_attention_heads); },
     kInEveryFamily},
    {"num_key_value_heads", [](const ModelConfig& m) { return Json(m.num_key_value_heads); },
     kInEveryFamily},
    {"hidden_act", [](const ModelConfig& m) { return Json(m.hidden_act); }, kInEveryFamily},
    {"rms_norm_eps", [](const ModelConfig& m) { return Json(m.rms_norm_eps); }, kInEveryFamily},
    {"max_position_embeddings",
     [](const ModelConfig& m) { return Json(m.max_position_embeddings); }, kInEveryFamily},
    {"rope_theta", [](const ModelConfig& m) { return Json(m.rope_theta); }, kInEveryFamily},
    {"rope_scaling", rope_scaling, kInEveryFamily},
    {"attention_bias", [](const ModelConfig& m) { return Json(m.attention_bias); }},
    {"attention_dropout", [](const ModelConfig& m) { return Json(m.attention_dropout); },
     kInEveryFamily},
    {"initializer_range", [](const ModelConfig& m) { return Json(m.initializer_range); },
     kInEveryFamily},
    {"tie_word_embeddings", [](const ModelConfig& m) { return Json(m.tie_word_embeddings); },
     kInEveryFamily},
    {"use_cache", [](const ModelConfig&) { return Json(true); }, kInEveryFamily},
    {"q_lora_rank", [](const ModelConfig& m) { return or_null(m.q_lora_rank); }},
    {"kv_lora_rank", [](const ModelConfig& m) { return Json(m.kv_lora_rank); }},
    {"qk_nope_head_dim", [](const ModelConfig& m) { return Json(m.qk_nope_head_dim); }},
    {"qk_rope_head_dim", [](const ModelConfig& m) { return Json(m.qk_rope_head_dim); }},
    {"v_head_dim", [](const ModelConfig& m) { return Json(m.v_head_dim); }},
    {"rope_interleave", [](const ModelConfig& m) { return Json(m.rope_interleave); }},
    {"num_nextn_predict_layers",
     [](const ModelConfig& m) { return Json(m.num_nextn_predict_layers); }},
    {"head_dim", [](const ModelConfig& m) { return Json(m.head_dim); }},
    {"mlp_bias", [](const ModelConfig& m) { return Json(m.mlp_bias); }},
    {"use_sliding_window", [](const ModelConfig& m) { return Json(m.use_sliding_window); }},
    {"sliding_window", [](const ModelConfig& m) { return or_null(m.sliding_window); }},
    {"max_window_layers", [](const ModelConfig& m) { return Json(first_windowed_layer(m)); }},
    {"layer_types", layer_types},
    {"rope_local_base_freq",
     [](const ModelConfig& m) { return Json(m.rope_local_base_freq.value_or(m.rope_theta)); }},
    {"partial_rotary_factor", [](const ModelConfig& m) { return Json(m.partial_rotary_factor); }},
    {"original_max_position_embeddings",
     [](const ModelConfig& m) {
       return Json(m.original_max_position_embeddings.value_or(m.max_position_embeddings));
     }},
    {"hidden_activation", [](const ModelConfig& m) { return Json(m.hidden_act); }},
    {"query_pre_attn_scalar",
     [](const ModelConfig& m) { return or_null(m.query_pre_attn_scalar); }},
    {"attn_logit_softcapping",
     [](const ModelConfig& m) { return or_null(m.attn_logit_softcapping); }},
    {"final_logit_softcapping",
     [](const ModelConfig& m) { return or_null(m.final_logit_softcapping); }},
    {"swiglu_alpha", [](const ModelConfig& m) { return Json(m.design().gate_slope); }},
    {"swiglu_limit", [](const ModelConfig& m) { return or_null(m.activation_func_clamp_value); }},
    {"use_qk_norm", [](const ModelConfig& m) { return Json(m.qk_layernorm); }},
    {"num_local_experts", [](const ModelConfig& m) { return Json(m.n_routed_experts); }},
    {"num_experts_per_tok", [](const ModelConfig& m) { return Json(m.num_experts_per_tok); }},
    {"moe_intermediate_size", [](const ModelConfig& m) { return Json(m.moe_intermediate_size); }},
    {"norm_topk_prob", [](const ModelConfig& m) { return Json(m.norm_topk_prob); }},
    {"num_experts", [](const ModelConfig& m) { return Json(m.n_routed_experts); }},
    {"decoder_sparse_step", [](const ModelConfig& m) { return Json(m.decoder_sparse_step); }},
    {"mlp_only_layers", [](const ModelConfig& m) { return Json(m.mlp_only_layers); }},
    {"router_aux_loss_coef", [](const ModelConfig& m) { return Json(m.moe_aux_loss_coeff); }},
    {"output_router_logits", [](const ModelConfig&) { return Json(false); }},
    {"n_routed_experts", [](const ModelConfig& m) { return Json(m.n_routed_experts); }},
    {"n_shared_experts", [](const ModelConfig& m) { return Json(m.n_shared_experts); }},
    {"n_group", [](const ModelConfig& m) { return or_null(m.n_group); }},
    {"topk_group", [](const ModelConfig& m) { return or_null(m.topk_group); }},
    {"routed_scaling_factor", [](const ModelConfig& m) { return Json(m.routed_scaling_factor); }},
    {"first_k_dense_replace", [](const ModelConfig& m) { return Json(m.first_k_dense_replace); }},
    {"moe_layer_freq", moe_layer_freq},
    {"scoring_func", [](const ModelConfig& m) { return Json(m.moe_router_score_function); }},
    {"topk_method", [](const ModelConfig&) { return Json("noaux_tc"); }},
};

// Keys without effect on training that the model or the weights' type decide all the same, or that
// would not be true of the folder that is written.
constexpr auto kDecided = std::to_array<std::string_view>(
    {"_name_or_path", "architectures", "auto_map", "dtype", "hidden_act", "max_position_embeddings",
     "model_type", "original_max_position_embeddings", "quantization_config", "rope_parameters",
     "rope_scaling", "sliding_window_pattern", "_sliding_window_pattern", "torch_dtype",
     "transformers_version"});

void keep_published(const std::string& text, const Family& family, Json& json) {
  const Json published = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!published.is_object()) return;
  const Json type = published.value("model_type", Json(family.model_type));
  if (!type.is_string()) return;
  const AlikeModel* alike = find_alike_model(type.get<std::string>());
  if ((alike ? alike->family : type.get<std::string>()) != family.model_type) return;
  for (const auto& [key, value] : published.items()) {
    if (has_no_effect(key) && std::ranges::find(kDecided, key) == kDecided.end()) json[key] = value;
  }
}

}  // namespace

std::string published_config(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string folder = is_hf_folder(path) ? path : checkpoint_with_config(path);
  if (path.empty() || folder.empty()) return "";
  std::ifstream file(fs::path(folder) / "config.json");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string hf_config_json(const ModelConfig& m, DType dtype, const std::string& published) {
  TESSERA_CHECK(m.family, "a model without a family has no config.json");
  const Family& family = *m.family;
  Json json = {
      {"architectures", {family.architecture}},
      {"model_type", family.model_type},
      {"dtype", to_string(dtype)},
  };
  for (const std::string_view wanted : family.hf_keys) {
    const bool known = std::ranges::any_of(kKeys, [&](const Key& k) { return k.name == wanted; });
    TESSERA_CHECK(known, family.model_type, ": no key of a config.json: ", wanted);
  }
  for (const Key& key : kKeys) {
    if (key.in_every_family ||
        std::ranges::find(family.hf_keys, key.name) != family.hf_keys.end()) {
      json[key.name] = key.value(m);
    }
  }
  if (!published.empty()) keep_published(published, family, json);
  return json.dump(2) + "\n";
}

}  // namespace tessera
