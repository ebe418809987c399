#pragma once

#include <map>
#include <string>

#include "tessera/config/config.h"

namespace tessera {

/// What to_yaml writes, key by key: "training.steps" and the like, values as YAML.
std::map<std::string, std::string> written_fields(const Config& config);

}  // namespace tessera
