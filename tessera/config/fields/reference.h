#pragma once

#include <string>

namespace tessera {

/// docs/config.md: every key with its type, default, legal values, effect and meaning.
std::string config_reference();

}  // namespace tessera
