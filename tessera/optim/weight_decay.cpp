#include "tessera/optim/weight_decay.h"

#include <fnmatch.h>

#include "tessera/layout/mindformers_name.h"

namespace tessera {
namespace {

bool matches(const std::string& rule, const std::string& name) {
  return name.find(rule) != std::string::npos || fnmatch(rule.c_str(), name.c_str(), 0) == 0;
}

bool any_matches(const std::optional<std::vector<std::string>>& rules,
                 const std::vector<std::string>& names) {
  if (!rules) return false;
  for (const std::string& rule : *rules) {
    for (const std::string& name : names) {
      if (matches(rule, name)) return true;
    }
  }
  return false;
}

}  // namespace

bool is_decayed(const OptimizerConfig& config, const std::string& name, size_t dimensions) {
  const std::vector<std::string> names{name, mindformers_name(name)};
  if (any_matches(config.weight_decay_include, names)) return true;
  if (any_matches(config.weight_decay_exclude, names)) return false;
  return dimensions > 1 && !name.ends_with(".bias");
}

}  // namespace tessera
