#pragma once

#include <string_view>

#include "tessera/config/config.h"

namespace tessera {

// For the tables of the program itself: `path` is a stored key and `text` a legal value of it, as
// YAML spells it.

void set_field(Config& config, std::string_view path, std::string_view text);

/// Whether the key has this value.
bool has_value(const Config& config, std::string_view path, std::string_view text);

}  // namespace tessera
