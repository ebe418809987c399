#include "tessera/layout/initial_deviation.h"

#include <map>

#include "tessera/base/error.h"
#include "tessera/config/mindformers_name.h"
#include "tessera/layout/model_spec.h"

namespace tessera {
namespace {

bool begins_with(const std::string& name, const std::regex& pattern) {
  return std::regex_search(name, pattern, std::regex_constants::match_continuous);
}

bool matches(const std::string& name, const std::regex& pattern) {
  return begins_with(name, pattern) || begins_with(mindformers_name(name), pattern);
}

// Norms start at one and biases at zero.
bool starts_random(const ParamSpec& spec) { return spec.shape.size() > 1 && spec.tied_to.empty(); }

}  // namespace

InitialDeviation::InitialDeviation(const ModelConfig& model) : usual_(model.initializer_range) {
  for (const InitStdRule& rule : model.param_init_std_rules) {
    try {
      rules_.emplace_back(std::regex(rule.target), rule.init_method_std);
    } catch (const std::regex_error& error) {
      throw ConfigError("model.param_init_std_rules: " + rule.target +
                        " is no regular expression: " + error.what());
    }
  }
}

double InitialDeviation::of(const std::string& name) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (matches(name, rule->first)) return rule->second;
  }
  return usual_;
}

std::string init_rule_problem(const InitStdRule& rule, const ModelConfig& model) {
  std::regex pattern;
  try {
    pattern = std::regex(rule.target);
  } catch (const std::regex_error& error) {
    return std::string("is no regular expression: ") + error.what();
  }
  bool any = false;
  struct Experts {
    int64_t all = 0, matched = 0;
  };
  std::map<std::pair<int64_t, ParamRole>, Experts> experts;
  for (const ParamSpec& spec : model_spec(model)) {
    if (!starts_random(spec)) continue;
    const bool here = matches(spec.name, pattern);
    any |= here;
    if (spec.expert < 0) continue;
    Experts& of_layer = experts[{spec.layer, spec.role}];
    ++of_layer.all;
    of_layer.matched += here;
  }
  if (!any) return "matches no weight that starts random (names as of Hugging Face or MindFormers)";
  for (const auto& [place, of_layer] : experts) {
    if (of_layer.matched != 0 && of_layer.matched != of_layer.all) {
      return "matches " + std::to_string(of_layer.matched) + " of the " +
             std::to_string(of_layer.all) + " experts of layer " + std::to_string(place.first) +
             "; it must match all or none";
    }
  }
  return "";
}

}  // namespace tessera
