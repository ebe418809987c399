#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/config/issue.h"
#include "tessera/config/optimizer_kind.h"

namespace tessera {

/// A file as read: the tree with its defaults in place, where each value came from, and all that
/// is wrong with it. `config` is usable only without errors.
struct ConfigResult {
  Config config;
  Provenance provenance;
  std::vector<Issue> issues;
  bool is_read = true;  // false: no document was found in it, so that no rule can judge it

  bool ok() const { return !has_errors(issues); }
};

/// Reads `path` and applies `set_overrides` ("section.field=value", value in YAML), in order.
/// Everything the file alone tells is checked: YAML syntax, duplicate and unknown keys, types,
/// the config.json at checkpoint.load_path. A model is of one of `families`, optimizer.type names
/// one of `optimizers`. Never throws for what the user wrote.
ConfigResult load_config(const std::string& path, const std::vector<std::string>& set_overrides,
                         const FamilyTable& families = builtin_families(),
                         const OptimizerTable& optimizers = builtin_optimizers());

/// The same for a text; `name` stands for the file in messages, `directory` is where relative
/// paths are looked up first.
ConfigResult load_config_text(const std::string& text, const std::string& name,
                              const std::string& directory,
                              const std::vector<std::string>& set_overrides,
                              const FamilyTable& families = builtin_families(),
                              const OptimizerTable& optimizers = builtin_optimizers());

/// The resolved configuration as YAML: read again it gives the same Config.
std::string to_yaml(const Config& config);

}  // namespace tessera
