// Rules of the experts of the model section.

#include <algorithm>

#include "tessera/config/fields/key_groups.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

void check_dense(Checker& check) {
  for (const std::string_view key : kExpertKeys) {
    if (check.given(key)) check.no_effect(key);
  }
}

void check_choice_of_experts(Checker& check) {
  const ModelConfig& m = check.config.model;
  const int64_t experts = m.n_routed_experts;
  if (check.good({"model.num_experts_per_tok"}) && m.num_experts_per_tok > experts) {
    check.error("model.num_experts_per_tok",
                "must not exceed n_routed_experts (" + std::to_string(experts) + ")",
                std::to_string(experts));
  }
  if (m.topk_group && !m.n_group) {
    check.error("model.topk_group", "needs n_group");
  } else if (m.n_group && !m.topk_group) {
    check.error("model.n_group", "needs topk_group");
  }
  if (!m.n_group || !m.topk_group || !check.good({"model.n_group", "model.topk_group"})) return;
  if (experts % *m.n_group != 0) {
    check.error("model.n_group", "must divide n_routed_experts (" + std::to_string(experts) + ")",
                nearest_divisors(experts, *m.n_group));
    return;
  }
  if (*m.n_group > 1 && experts / *m.n_group < 2) {
    check.error("model.n_group", "must leave at least two experts a group (" +
                                     std::to_string(experts) + " experts)");
  }
  if (*m.topk_group > *m.n_group) {
    check.error("model.topk_group", "must not exceed n_group (" + std::to_string(*m.n_group) + ")",
                std::to_string(*m.n_group));
  } else if (check.good({"model.num_experts_per_tok"}) &&
             m.num_experts_per_tok > *m.topk_group * (experts / *m.n_group)) {
    check.error("model.num_experts_per_tok",
                "must not exceed the experts of topk_group groups (" +
                    std::to_string(*m.topk_group * (experts / *m.n_group)) + ")");
  }
}

void check_layer_pattern(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (!check.good({"model.num_hidden_layers", "model.first_k_dense_replace"})) return;
  const int64_t layers = m.num_hidden_layers;
  if (m.first_k_dense_replace > layers) {
    check.error("model.first_k_dense_replace",
                "must not exceed num_hidden_layers (" + std::to_string(layers) + ")");
  }
  if (const auto* freq = std::get_if<int64_t>(&m.moe_layer_freq)) {
    if (*freq < 1) {
      check.error("model.moe_layer_freq", "must be at least 1, or a list");
    } else if (*freq > 1 && m.first_k_dense_replace > 0) {
      check.error("model.moe_layer_freq", "must be 1 with first_k_dense_replace");
    } else if (*freq > 1 && m.decoder_sparse_step > 1) {
      check.error("model.moe_layer_freq", "must be 1 with decoder_sparse_step");
    }
    return;
  }
  const auto& pattern = std::get<std::vector<int64_t>>(m.moe_layer_freq);
  if (static_cast<int64_t>(pattern.size()) != layers) {
    check.error("model.moe_layer_freq", "needs one entry a layer (" + std::to_string(layers) +
                                            "), has " + std::to_string(pattern.size()));
  } else if (std::ranges::any_of(pattern, [](int64_t x) { return x != 0 && x != 1; })) {
    check.error("model.moe_layer_freq", "entries must be 0 (dense) or 1 (experts)");
  } else if (m.first_k_dense_replace > 0) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      if ((pattern[layer] == 1) != (layer >= m.first_k_dense_replace)) {
        check.error("model.moe_layer_freq",
                    "contradicts first_k_dense_replace at layer " + std::to_string(layer));
        return;
      }
    }
  }
}

void check_router(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (m.moe_router_enable_expert_bias && m.moe_router_score_function == "softmax") {
    check.error("model.moe_router_enable_expert_bias",
                "needs moe_router_score_function sigmoid or sqrtsoftplus");
  }
  if (m.moe_aux_loss_coeff > 0 && m.moe_router_load_balancing_type == "sub_seq_aux_loss") {
    check.warning("model.moe_router_load_balancing_type", "is not defined: taken as seq_aux_loss");
  }
  if (m.moe_aux_loss_coeff > 0 && m.moe_router_load_balancing_type == "gbs_aux_loss") {
    check.error("model.moe_router_load_balancing_type",
                "gbs_aux_loss counts over all micro-batches of an update, which is not built",
                "global_aux_loss, over the ranks of a micro-batch");
  }
  if (m.moe_apply_probs_on_input && m.num_experts_per_tok != 1) {
    check.error("model.moe_apply_probs_on_input", "needs num_experts_per_tok 1");
  }
  if (m.num_experts_per_tok == 1 && m.norm_topk_prob && m.moe_router_score_function == "softmax") {
    check.warning("model.norm_topk_prob",
                  "makes every routing weight 1 with num_experts_per_tok 1: the router gets no "
                  "gradient");
  }
}

}  // namespace

void check_experts(Checker& check) {
  const ModelConfig& m = check.config.model;
  if (!check.model_ok) return;
  if (!m.family->has_experts) {
    check_dense(check);
    return;
  }
  if (!check.good({"model.n_routed_experts"})) return;
  if (!m.is_moe()) {
    check.error("model.n_routed_experts", "is needed for " + m.model_type);
    return;
  }
  if (check.good({"model.moe_intermediate_size"}) && m.moe_intermediate_size < 1) {
    check.error("model.moe_intermediate_size", "must be at least 1");
  }
  if (check.good({"model.num_hidden_layers"}) &&
      m.n_routed_experts * m.num_hidden_layers > (int64_t{1} << 21)) {
    check.error("model.n_routed_experts", "times num_hidden_layers must be at most 2097152");
  }
  if (m.n_shared_experts > 0 && m.moe_shared_expert_intermediate_size < 1) {
    check.error("model.moe_shared_expert_intermediate_size", "must be at least 1");
  }
  check_choice_of_experts(check);
  check_layer_pattern(check);
  check_router(check);
  for (const int64_t layer : m.mlp_only_layers) {
    if (layer < 0 || layer >= m.num_hidden_layers) {
      check.error("model.mlp_only_layers", "names layer " + std::to_string(layer) + " of " +
                                               std::to_string(m.num_hidden_layers));
      break;
    }
  }
}

}  // namespace tessera
