#include "tessera/layout/recompute_plan.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/layer_ranges.h"

namespace tessera {
namespace {

std::set<ParamRole> roles_of(const std::vector<ParamSpec>& model, int64_t layer) {
  std::set<ParamRole> roles;
  for (const ParamSpec& spec : model) {
    if (spec.layer == layer) roles.insert(spec.role);
  }
  return roles;
}

std::string join(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> module_names(const std::vector<ParamSpec>& model, int64_t layer) {
  const std::set<ParamRole> roles = roles_of(model, layer);
  std::vector<std::string> names;
  const auto add = [&](std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  add({"input_layernorm", "self_attention", "self_attn"});
  if (roles.contains(ParamRole::kMlaKvA)) {
    add({"self_attention.linear_qkv", "self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"});
    if (roles.contains(ParamRole::kQNorm)) {
      add({"self_attention.q_layernorm", "self_attn.q_a_layernorm"});
    }
    if (roles.contains(ParamRole::kKNorm)) {
      add({"self_attention.k_layernorm", "self_attn.kv_a_layernorm"});
    }
    add({"self_attention.linear_qb", "self_attn.q_b_proj", "self_attn.q_proj",
         "self_attention.linear_kvb", "self_attn.kv_b_proj"});
  } else {
    add({"self_attention.linear_qkv", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    if (roles.contains(ParamRole::kQNorm)) add({"self_attention.q_layernorm", "self_attn.q_norm"});
    if (roles.contains(ParamRole::kKNorm)) add({"self_attention.k_layernorm", "self_attn.k_norm"});
  }
  add({"self_attention.core_attention", "self_attention.linear_proj", "self_attn.o_proj",
       "pre_mlp_layernorm", "post_attention_layernorm", "mlp"});
  if (roles.contains(ParamRole::kRouter)) {
    add({"mlp.router", "mlp.gate", "mlp.experts"});
    if (roles.contains(ParamRole::kSharedGate)) add({"mlp.shared_experts"});
  } else {
    add({"mlp.linear_fc1", "mlp.gate_proj", "mlp.up_proj", "mlp.linear_fc2", "mlp.down_proj"});
  }
  return names;
}

std::set<int64_t> layers_of(const std::vector<std::string>& specs, const ModelConfig& model) {
  std::string problem;
  std::set<int64_t> layers;
  for (const LayerRange& range : parse_layer_specs(
           specs, model.num_hidden_layers + model.num_nextn_predict_layers, problem)) {
    for (int64_t layer = range.first; layer <= range.last; ++layer) layers.insert(layer);
  }
  if (!problem.empty()) throw ConfigError("recompute: " + problem);
  return layers;
}

std::string pattern_problem(const std::string& pattern, const std::vector<ParamSpec>& model,
                            const std::set<int64_t>& layers) {
  try {
    const std::regex regex(pattern);
    std::set<std::string> all;
    for (const int64_t layer : layers) {
      for (const std::string& name : module_names(model, layer)) {
        if (std::regex_match(name, regex)) return "";
        all.insert(name);
      }
    }
    return "matches no module in full; there are " + join(all);
  } catch (const std::regex_error& error) {
    return std::string("is no regular expression: ") + error.what();
  }
}

RecomputePlan::RecomputePlan(const Config& config) {
  const RecomputeConfig& r = config.recompute;
  if (r.mode == "None") return;
  if (r.full_recompute_layer) layers_ = layers_of(*r.full_recompute_layer, config.model);
  if (r.mode != "select" || !r.select_module) return;
  const std::vector<ParamSpec> model = model_spec(config.model);
  for (const auto& [pattern, specs] : *r.select_module) {
    std::set<int64_t> layers = layers_of(specs, config.model);
    const std::string problem = pattern_problem(pattern, model, layers);
    if (!problem.empty()) {
      throw ConfigError("recompute.select_module: " + pattern + " " + problem);
    }
    selections_.push_back({std::regex(pattern), std::move(layers)});
  }
}

bool RecomputePlan::selects(int64_t layer, const std::vector<std::string>& names) const {
  if (whole(layer)) return false;
  return std::ranges::any_of(selections_, [&](const Selection& selection) {
    return selection.layers.contains(layer) &&
           std::ranges::any_of(names, [&](const std::string& name) {
             return std::regex_match(name, selection.pattern);
           });
  });
}

}  // namespace tessera
