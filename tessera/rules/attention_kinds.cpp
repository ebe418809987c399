// Rules of windows, caps and partial rotary embedding in the model section.

#include <algorithm>

#include "tessera/rules/checker.h"

namespace tessera {
namespace {

bool has_windowed_layers(const ModelConfig& m) {
  return std::ranges::find(m.layer_types, kWindowedLayer) != m.layer_types.end();
}

void check_windows(Checker& check) {
  const ModelConfig& m = check.config.model;
  const LayerDesign& design = m.design();
  if (!design.has_windows) {
    if (m.use_sliding_window) {
      check.error("model.use_sliding_window", m.model_type + " has no windows", "false");
    } else if (m.sliding_window) {
      check.error("model.sliding_window", m.model_type + " has no windows", "null");
    } else if (has_windowed_layers(m)) {
      check.error("model.layer_types", m.model_type + " has no windows");
    }
    return;
  }
  const auto layers = static_cast<size_t>(m.num_hidden_layers);
  if (!check.good({"model.layer_types", "model.num_hidden_layers"})) return;
  if (check.given("model.layer_types") && m.layer_types.size() != layers) {
    check.error("model.layer_types", "needs one entry a layer (" + std::to_string(layers) +
                                         "), has " + std::to_string(m.layer_types.size()));
    return;
  }
  if (has_windowed_layers(m) && !m.sliding_window) {
    check.error("model.sliding_window", "is needed with sliding_attention in layer_types");
  }
  if (!design.asks_for_window) {
    for (const char* key : {"model.use_sliding_window", "model.max_window_layers"}) {
      if (check.given(key)) check.no_effect(key);
    }
  } else if (m.use_sliding_window && !m.sliding_window && !check.given("model.layer_types")) {
    check.error("model.sliding_window", "is needed with use_sliding_window");
  }
  if (m.rope_local_base_freq && !has_windowed_layers(m)) {
    check.no_effect("model.rope_local_base_freq");
  }
}

void check_rotary_part(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (!check.good({"model.partial_rotary_factor", "model.head_dim"})) return;
  if (m.has_latent_attention()) {
    if (check.given("model.partial_rotary_factor")) check.no_effect("model.partial_rotary_factor");
    return;
  }
  const int64_t turned = m.rotary_dim();
  if (m.partial_rotary_factor < 1 && (turned < 2 || turned % 2 != 0)) {
    check.error("model.partial_rotary_factor",
                "must turn an even number of dimensions, at least 2; of head_dim " +
                    std::to_string(m.head_dim) + " it turns " + std::to_string(turned));
  }
}

void check_longrope(Checker& check) {
  const ModelConfig& m = check.config.model;
  const RopeScaling& rope = m.rope_scaling;
  if (rope.rope_type != "longrope") return;
  if (!rope.original_max_position_embeddings && !m.original_max_position_embeddings) {
    check.error("model.rope_scaling.original_max_position_embeddings",
                "is needed with rope_type longrope");
  }
  const auto pairs = static_cast<size_t>(m.rotary_dim() / 2);
  for (const auto& [path, factors] :
       {std::pair{"model.rope_scaling.short_factor", &rope.short_factor},
        std::pair{"model.rope_scaling.long_factor", &rope.long_factor}}) {
    if (factors->size() != pairs) {
      check.error(path, "needs a number for each of the " + std::to_string(pairs) +
                            " rotary pairs, has " + std::to_string(factors->size()));
    } else if (std::ranges::any_of(*factors, [](double factor) { return factor <= 0; })) {
      check.error(path, "must be positive numbers");
    }
  }
}

}  // namespace

void check_attention_kinds(Checker& check) {
  if (!check.model_ok) return;
  const ModelConfig& m = check.config.model;
  check_windows(check);
  check_rotary_part(check);
  check_longrope(check);
  if (m.has_latent_attention()) {
    for (const auto& [path, given] :
         {std::pair{"model.attn_logit_softcapping", m.attn_logit_softcapping.has_value()},
          std::pair{"model.query_pre_attn_scalar", m.query_pre_attn_scalar.has_value()}}) {
      if (given) check.error(path, "is not built for latent attention");
    }
  }
}

}  // namespace tessera
