// Rules of the model section by itself; experts have their own file.

#include <cctype>

#include "tessera/config/families/unbuilt.h"
#include "tessera/config/fields/field_text.h"
#include "tessera/config/fields/key_groups.h"
#include "tessera/layout/initial_deviation.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

void check_heads(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (!check.good(
          {"model.num_attention_heads", "model.num_key_value_heads", "model.hidden_size"})) {
    return;
  }
  if (m.has_latent_attention()) {
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
  if (!m.has_latent_attention() ||
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
  if (m.rope_scaling.rope_type != "default" && m.rope_scaling.rope_type != "yarn" &&
      check.good({"model.rope_scaling.rope_type"})) {
    check.error("model.rope_scaling.rope_type", "must be default or yarn with latent attention");
  }
}

void check_rope(Checker& check) {
  const RopeScaling& rope = check.config.model.rope_scaling;
  const bool scaled = rope.rope_type != "default";
  if (scaled && check.good({"model.rope_scaling.rope_type"}) &&
      !check.given("model.rope_scaling.factor") && rope.rope_type != "yarn" &&
      rope.rope_type != "longrope") {
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

// Spelt alike but for case and separators: qwen3moe and qwen3_moe. Families that only look alike
// are other models.
std::string letters_and_digits(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

void check_family(Checker& check) {
  constexpr std::string_view kField = "model.model_type";
  const ModelConfig& m = check.config.model;
  if (m.family || !check.good({kField})) return;
  if (m.model_type.empty()) {
    check.error(kField, "is needed; one of " + check.families.names());
    return;
  }
  if (const UnbuiltFamily* unbuilt = find_unbuilt_family(m.model_type)) {
    check.error(kField, std::string(unbuilt->title) + " is not built; must be one of " +
                            check.families.names());
    return;
  }
  std::string meant;
  for (const auto& row : check.families.rows()) {
    if (letters_and_digits(row->model_type) == letters_and_digits(m.model_type)) {
      meant = row->model_type;
    }
  }
  check.error(kField, "must be one of " + check.families.names(), meant);
}

void check_fixed_fields(Checker& check, const Family& family) {
  for (const FixedField& fixed : family.fixed) {
    if (!check.good({fixed.path}) || has_value(check.config, fixed.path, fixed.text)) continue;
    check.error(fixed.path, "must be " + std::string(fixed.text) + " for " + family.model_type +
                                "; " + std::string(fixed.reason));
  }
}

// A rule that moves nothing is a slip of its pattern.
void check_init_rules(Checker& check) {
  constexpr std::string_view kField = "model.param_init_std_rules";
  const ModelConfig& m = check.config.model;
  for (size_t i = 0; i < m.param_init_std_rules.size(); ++i) {
    const InitStdRule& rule = m.param_init_std_rules[i];
    const auto say = [&](const std::string& what) {
      check.error_at(kField, static_cast<int64_t>(i), rule.target, what);
    };
    if (rule.init_method_std < 0) {
      say("init_method_std must be at least 0");
    } else if (!check.good({"model.num_hidden_layers", "model.n_routed_experts"})) {
      continue;
    } else if (const std::string problem = init_rule_problem(rule, m); !problem.empty()) {
      say(problem);
    }
  }
}

void check_keys_of_parts(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (m.hidden_dropout >= 1.0 && check.good({"model.hidden_dropout"})) {
    check.error("model.hidden_dropout", "must be below 1");
  }
  if (m.num_nextn_predict_layers > 0) {
    if (!m.mtp_loss_factor && check.good({"model.num_nextn_predict_layers"})) {
      check.error("model.mtp_loss_factor", "is needed with num_nextn_predict_layers");
    }
  } else if (m.mtp_loss_factor) {
    check.no_effect("model.mtp_loss_factor");
  }
  if (m.multi_latent_attention && *m.multi_latent_attention != m.has_latent_attention()) {
    check.error("model.multi_latent_attention", std::string("must be ") +
                                                    (m.has_latent_attention() ? "true" : "false") +
                                                    " for " + m.model_type);
  }
  check_init_rules(check);
  if (m.has_latent_attention()) return;
  for (const std::string_view key : kLatentKeys) {
    if (check.given(key)) check.no_effect(key);
  }
  if (m.rope_scaling.rope_type == "yarn") return;
  for (const std::string_view key : kRotaryKeys) {
    if (check.given(key)) check.no_effect(key);
  }
}

}  // namespace

void check_model(Checker& check) {
  check_family(check);
  check.model_ok = check.good({"model.model_type"});
  if (!check.model_ok) return;
  check_fixed_fields(check, *check.config.model.family);
  check_keys_of_parts(check);
  check_heads(check);
  check_latent_attention(check);
  check_rope(check);
  check_dtypes(check);
}

}  // namespace tessera
