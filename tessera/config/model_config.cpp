#include "tessera/config/model_config.h"

#include <algorithm>
#include <cmath>

#include "tessera/config/family.h"

namespace tessera {
namespace {

// Peng et al. 2023, YaRN, section 3.4: the temperature as a factor on q and k.
double yarn_magnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

bool ModelConfig::is_moe_layer(int64_t layer) const {
  layer = std::min(layer, num_hidden_layers - 1);
  if (!is_moe() || layer < first_k_dense_replace) return false;
  if (std::ranges::find(mlp_only_layers, layer) != mlp_only_layers.end()) return false;
  if ((layer + 1) % decoder_sparse_step != 0) return false;
  if (const auto* pattern = std::get_if<std::vector<int64_t>>(&moe_layer_freq)) {
    return layer < static_cast<int64_t>(pattern->size()) && (*pattern)[layer] != 0;
  }
  return layer % std::get<int64_t>(moe_layer_freq) == 0;
}

int64_t ModelConfig::window_of(int64_t layer) const {
  layer = std::min(layer, num_hidden_layers - 1);
  if (!sliding_window || layer >= static_cast<int64_t>(layer_types.size())) return 0;
  return layer_types[static_cast<size_t>(layer)] == kWindowedLayer ? *sliding_window : 0;
}

const LayerDesign& ModelConfig::design() const {
  static const LayerDesign usual;
  return family ? family->design : usual;
}

const LayerNorm* ModelConfig::norm_at(NormPlace place) const {
  const bool of_queries_or_keys = place == NormPlace::kQuery || place == NormPlace::kKey;
  if (of_queries_or_keys && !qk_layernorm) return nullptr;
  const auto& norms = design().norms;
  const auto found = std::ranges::find(norms, place, &LayerNorm::place);
  return found == norms.end() ? nullptr : &*found;
}

int64_t ModelConfig::query_dim() const {
  return has_latent_attention() ? qk_nope_head_dim + qk_rope_head_dim : head_dim;
}
int64_t ModelConfig::value_dim() const { return has_latent_attention() ? v_head_dim : head_dim; }
int64_t ModelConfig::rotary_dim() const {
  if (has_latent_attention()) return qk_rope_head_dim;
  return static_cast<int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
}
int64_t ModelConfig::core_kv_heads() const {
  return has_latent_attention() ? num_attention_heads : num_key_value_heads;
}

bool has_gelu_gate(const ModelConfig& model) { return model.hidden_act.starts_with("gelu"); }

double attention_scale(const ModelConfig& model) {
  const double plain =
      1.0 / std::sqrt(model.query_pre_attn_scalar.value_or(static_cast<double>(model.query_dim())));
  if (!model.has_latent_attention()) return plain;
  double magnitude = 1.0;
  if (model.rope_scaling.rope_type != "default") {
    const double mscale = model.rope_scaling.mscale_all_dim.value_or(0.0);
    if (mscale != 0.0) magnitude = yarn_magnitude(model.rope_scaling.factor, mscale);
  } else if (model.rotary_scaling_factor) {
    magnitude = yarn_magnitude(*model.rotary_scaling_factor, model.mscale.value_or(kDefaultMscale));
  }
  return plain * magnitude * magnitude;
}

}  // namespace tessera
