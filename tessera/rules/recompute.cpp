// Rules of recompute and recompute_comm.

#include <algorithm>

#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

void check_specs(Checker& check, std::string_view path, const std::string& what,
                 const std::vector<std::string>& specs) {
  const ModelConfig& m = check.config.model;
  if (!check.model_ok ||
      !check.good({"model.num_hidden_layers", "model.num_nextn_predict_layers"})) {
    return;
  }
  std::string problem;
  parse_layer_specs(specs, m.num_hidden_layers + m.num_nextn_predict_layers, problem);
  if (!problem.empty()) check.error(path, what + problem);
}

void check_modules(Checker& check, std::string_view path,
                   const std::map<std::string, std::vector<std::string>>& modules) {
  for (const auto& [pattern, specs] : modules) {
    if (pattern.empty()) check.error(path, "holds an empty pattern");
    if (specs.empty()) check.error(path, pattern + ": names no layer");
    check_specs(check, path, pattern + ": ", specs);
  }
}

// A pattern that matches nothing would silently keep everything.
void check_matches(Checker& check, std::string_view path,
                   const std::map<std::string, std::vector<std::string>>& modules) {
  if (!check.model_ok || !check.good({path, "model.num_hidden_layers"})) return;
  const ModelConfig& model = check.config.model;
  for (const auto& [pattern, specs] : modules) {
    const std::string problem = pattern_problem(pattern, model, layers_of(specs, model));
    if (!problem.empty()) check.error(path, pattern + " " + problem);
  }
}

// What is excluded and does not run again anyway: named, for the file may have meant another
// module.
void check_exclusions(Checker& check) {
  constexpr std::string_view kExcluded = "recompute.exclude_op";
  const RecomputeConfig& r = check.config.recompute;
  if (!r.exclude_op || r.exclude_op->empty()) return;
  if (r.mode == "None") {
    check.no_effect(kExcluded);
    return;
  }
  check_modules(check, kExcluded, *r.exclude_op);
  check_matches(check, kExcluded, *r.exclude_op);
  if (!check.model_ok || !check.good({kExcluded, "recompute.mode", "recompute.select_module",
                                      "recompute.full_recompute_layer", "model.num_hidden_layers",
                                      "model.num_nextn_predict_layers"})) {
    return;
  }
  const ModelConfig& model = check.config.model;
  for (const auto& entry : *r.exclude_op) {
    Config alone = check.config;
    alone.recompute.exclude_op = {{entry}};
    Config without = check.config;
    without.recompute.exclude_op.reset();
    const RecomputePlan plan(alone), before(without);
    bool keeps = false;
    for (const int64_t layer : layers_of(entry.second, model)) {
      for (const LayerModule module : modules_of_layer(model, layer)) {
        keeps |= plan.keeps(layer, module) ||
                 (before.selects(layer, module) && !plan.selects(layer, module));
      }
    }
    if (!keeps) check.warning(kExcluded, entry.first + ": nothing that it matches would run again");
  }
}

}  // namespace

void check_recompute(Checker& check) {
  const RecomputeConfig& r = check.config.recompute;
  constexpr std::string_view kLayers = "recompute.full_recompute_layer";
  constexpr std::string_view kModules = "recompute.select_module";
  const bool has_layers = r.full_recompute_layer && !r.full_recompute_layer->empty();
  const bool has_modules = r.select_module && !r.select_module->empty();
  if (check.good({"recompute.mode"})) {
    if (r.mode == "full" && !has_layers) {
      check.error(kLayers, "is needed with mode full, as [\"0-3\"]");
    }
    if (r.mode == "select" && !has_modules) {
      check.error(kModules, "is needed with mode select");
    }
    if (r.mode == "None") {
      if (has_layers) check.no_effect(kLayers);
      if (has_modules) check.no_effect(kModules);
    } else if (r.mode == "full" && has_modules) {
      check.no_effect(kModules);
    }
  }
  if (has_layers) check_specs(check, kLayers, "", *r.full_recompute_layer);
  if (has_modules) check_modules(check, kModules, *r.select_module);
  if (has_modules && r.mode == "select") check_matches(check, kModules, *r.select_module);
  check_exclusions(check);

  const RecomputeCommConfig& comm = check.config.recompute_comm;
  const bool has_comm = comm.select_module && !comm.select_module->empty();
  if (has_comm) check_modules(check, "recompute_comm.select_module", *comm.select_module);
}

}  // namespace tessera
