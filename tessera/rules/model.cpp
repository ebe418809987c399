// Rules of the model section by itself; experts have their own file.

#include "tessera/config/family.h"
#include "tessera/config/key_groups.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

void check_heads(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (!check.good(
          {"model.num_attention_heads", "model.num_key_value_heads", "model.hidden_size"})) {
    return;
  }
  if (m.is_mla()) {
    if (m.num_key_value_heads != m.num_attention_heads) {
      check.error("model.num_key_value_heads",
                  "must be num_attention_heads (" + std::to_string(m.num_attention_heads) +
                      ") with latent attention",
                  std::to_string(m.num_attention_heads));
    }
    return;
  }
  if (m.num_attention_heads % m.num_key_value_heads != 0) {
    check.error("model.num_key_value_heads",
                "must divide num_attention_heads (" + std::to_string(m.num_attention_heads) + ")",
                nearest_divisors(m.num_attention_heads, m.num_key_value_heads));
  }
  if (!check.given("model.head_dim") && m.hidden_size % m.num_attention_heads != 0) {
    const int64_t below = m.hidden_size / m.num_attention_heads * m.num_attention_heads;
    check.error(
        "model.hidden_size",
        "must divide by num_attention_heads (" + std::to_string(m.num_attention_heads) +
            ") unless head_dim is given",
        nearest_of({below > 0 ? below : m.num_attention_heads, below + m.num_attention_heads},
                   m.hidden_size));
  }
  if (check.good({"model.head_dim"}) && m.head_dim % 2 != 0) {
    check.error("model.head_dim", "must be even for the rotary embedding",
                (m.head_dim > 1 ? std::to_string(m.head_dim - 1) + ", " : "") +
                    std::to_string(m.head_dim + 1));
  }
}

void check_latent_attention(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (!m.is_mla() ||
      !check.good({"model.qk_nope_head_dim", "model.qk_rope_head_dim", "model.v_head_dim"})) {
    return;
  }
  if (m.qk_rope_head_dim < 2 || m.qk_rope_head_dim % 2 != 0) {
    check.error("model.qk_rope_head_dim", "must be even and at least 2 for the rotary embedding");
  }
  if (m.qk_nope_head_dim + m.qk_rope_head_dim < m.v_head_dim) {
    check.error("model.v_head_dim", "must not exceed qk_nope_head_dim + qk_rope_head_dim (" +
                                        std::to_string(m.qk_nope_head_dim + m.qk_rope_head_dim) +
                                        ")");
  }
  if (m.rope_scaling.rope_type == "linear" || m.rope_scaling.rope_type == "llama3") {
    check.error("model.rope_scaling.rope_type", "must be default or yarn with latent attention");
  }
}

void check_rope(Checker& check) {
  const RopeScaling& rope = check.config.model.rope_scaling;
  const bool scaled = rope.rope_type != "default";
  if (scaled && check.good({"model.rope_scaling.rope_type"}) &&
      !check.given("model.rope_scaling.factor") && rope.rope_type != "yarn") {
    check.error("model.rope_scaling.factor", "is needed with rope_type " + rope.rope_type);
  }
  if (rope.rope_type == "llama3") {
    if (!rope.original_max_position_embeddings) {
      check.error("model.rope_scaling.original_max_position_embeddings",
                  "is needed with rope_type llama3");
    } else if (check.good({"model.max_position_embeddings"}) &&
               *rope.original_max_position_embeddings >
                   check.config.model.max_position_embeddings) {
      check.error("model.rope_scaling.original_max_position_embeddings",
                  "must not exceed max_position_embeddings (" +
                      std::to_string(check.config.model.max_position_embeddings) + ")");
    }
    if (rope.low_freq_factor >= rope.high_freq_factor) {
      check.error("model.rope_scaling.low_freq_factor",
                  "must be below high_freq_factor (" + std::to_string(rope.high_freq_factor) + ")");
    }
  }
  if (rope.rope_type == "yarn" && rope.beta_slow > rope.beta_fast) {
    check.error("model.rope_scaling.beta_slow", "must not exceed beta_fast");
  }
  // The keys beside rope_scaling mean the same as those in it.
  const ModelConfig& m = check.config.model;
  const auto agree = [&](std::string_view path, const std::optional<double>& outer, double inner) {
    if (rope.rope_type == "yarn" && outer && *outer != inner) {
      check.error(path, "must agree with rope_scaling (" + std::to_string(inner) + ")");
    }
  };
  agree("model.rotary_scaling_factor", m.rotary_scaling_factor, rope.factor);
  agree("model.beta_fast", m.beta_fast, rope.beta_fast);
  agree("model.beta_slow", m.beta_slow, rope.beta_slow);
  agree("model.mscale", m.mscale, rope.mscale.value_or(m.mscale.value_or(0)));
  agree("model.mscale_all_dim", m.mscale_all_dim,
        rope.mscale_all_dim.value_or(m.mscale_all_dim.value_or(0)));
}

void check_dtypes(Checker& check) {
  const ModelConfig& m = check.config.model;
  for (const auto& [path, dtype] :
       {std::pair{"model.params_dtype", m.params_dtype},
        std::pair{"model.embedding_params_dtype", m.embedding_params_dtype},
        std::pair{"model.compute_dtype", m.compute_dtype},
        std::pair{"model.layernorm_compute_dtype", m.layernorm_compute_dtype},
        std::pair{"model.rotary_dtype", m.rotary_dtype},
        std::pair{"model.moe_router_dtype", m.moe_router_dtype}}) {
    if (dtype == DType::kFloat16) {
      check.error(path,
                  "must be float32, bfloat16 or float64: without loss scaling float16 "
                  "underflows");
    }
  }
}

void check_family_keys(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (m.model_type == "llama" && m.qk_layernorm) {
    check.error("model.qk_layernorm", "must be false for llama; qwen3 has these norms");
  }
  if (m.mlp_bias && m.model_type != "llama") {
    check.error("model.mlp_bias", "must be false for " + m.model_type + "; llama can have it");
  }
  if (m.hidden_dropout >= 1.0 && check.good({"model.hidden_dropout"})) {
    check.error("model.hidden_dropout", "must be below 1");
  }
  if (m.num_nextn_predict_layers > 0) {
    if (m.model_type != "deepseek_v3") {
      check.error("model.num_nextn_predict_layers", "must be 0 for " + m.model_type);
    } else if (!m.mtp_loss_factor) {
      check.error("model.mtp_loss_factor", "is needed with num_nextn_predict_layers");
    }
  } else if (m.mtp_loss_factor) {
    check.no_effect("model.mtp_loss_factor");
  }
  if (!m.is_mla()) {
    for (const std::string_view key : kLatentKeys) {
      if (check.given(key)) check.no_effect(key);
    }
    if (m.rope_scaling.rope_type != "yarn") {
      for (const std::string_view key : kRotaryKeys) {
        if (check.given(key)) check.no_effect(key);
      }
    }
  }
}

}  // namespace

void check_model(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (m.model_type.empty() && check.good({"model.model_type"})) {
    std::string legal;
    for (const Family& family : all_families()) {
      legal += (legal.empty() ? "" : ", ") + std::string(family.model_type);
    }
    check.error("model.model_type", "is needed; one of " + legal);
  }
  check.model_ok = check.good({"model.model_type"});
  if (!check.model_ok) return;
  check_family_keys(check);
  check_heads(check);
  check_latent_attention(check);
  check_rope(check);
  check_dtypes(check);
}

}  // namespace tessera
