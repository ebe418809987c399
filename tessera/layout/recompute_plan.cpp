#include "tessera/layout/recompute_plan.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/layer_ranges.h"

namespace tessera {
namespace {

std::string join(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

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

std::string pattern_problem(const std::string& pattern, const ModelConfig& model,
                            const std::set<int64_t>& layers) {
  try {
    const std::regex regex(pattern);
    std::set<std::string> all;
    for (const int64_t layer : layers) {
      for (const LayerModule module : modules_of_layer(model, layer)) {
        for (const std::string& name : module_names(module, model.design())) {
          if (std::regex_match(name, regex)) return "";
          all.insert(name);
        }
      }
    }
    return "matches no module in full; there are " + join(all);
  } catch (const std::regex_error& error) {
    return std::string("is no regular expression: ") + error.what();
  }
}

RecomputePlan::RecomputePlan(const Config& config) : design_(config.model.design()) {
  const RecomputeConfig& r = config.recompute;
  if (r.mode == "None") return;
  if (r.full_recompute_layer) layers_ = layers_of(*r.full_recompute_layer, config.model);
  if (r.exclude_op) {
    for (const auto& [pattern, specs] : *r.exclude_op) {
      exclusions_.push_back({std::regex(pattern), layers_of(specs, config.model)});
    }
  }
  if (r.mode != "select" || !r.select_module) return;
  for (const auto& [pattern, specs] : *r.select_module) {
    std::set<int64_t> layers = layers_of(specs, config.model);
    const std::string problem = pattern_problem(pattern, config.model, layers);
    if (!problem.empty()) {
      throw ConfigError("recompute.select_module: " + pattern + " " + problem);
    }
    selections_.push_back({std::regex(pattern), std::move(layers)});
  }
}

bool RecomputePlan::matches(const std::vector<Selection>& selections, int64_t layer,
                            LayerModule module) const {
  if (selections.empty()) return false;
  const std::vector<std::string> names = module_names(module, design_);
  return std::ranges::any_of(selections, [&](const Selection& selection) {
    return selection.layers.contains(layer) &&
           std::ranges::any_of(names, [&](const std::string& name) {
             return std::regex_match(name, selection.pattern);
           });
  });
}

bool RecomputePlan::selects(int64_t layer, LayerModule module) const {
  return !whole(layer) && matches(selections_, layer, module) &&
         !matches(exclusions_, layer, module);
}

bool RecomputePlan::runs_again(int64_t layer, LayerModule module) const {
  if (whole(layer)) return true;
  return std::ranges::any_of(kOuterModules, [&](LayerModule outer) {
    return is_inside(module, outer) && selects(layer, outer);
  });
}

bool RecomputePlan::keeps(int64_t layer, LayerModule module) const {
  if (!matches(exclusions_, layer, module) || !runs_again(layer, module)) return false;
  return std::ranges::none_of(kOuterModules, [&](LayerModule outer) {
    return is_inside(module, outer) && keeps(layer, outer);
  });
}

}  // namespace tessera
