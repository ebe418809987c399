#include "tessera/optim/weight_decay.h"

#include "tessera/config/name_rules.h"

namespace tessera {

bool is_decayed(const OptimizerConfig& config, const std::string& name, size_t dimensions) {
  if (config.weight_decay_include && name_matches(*config.weight_decay_include, name)) return true;
  if (config.weight_decay_exclude && name_matches(*config.weight_decay_exclude, name)) return false;
  return dimensions > 1 && !name.ends_with(".bias");
}

}  // namespace tessera
