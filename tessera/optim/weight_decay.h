#pragma once

// Which parameters weight decay applies to. Every optimizer asks here.

#include <cstddef>
#include <string>

#include "tessera/config/config.h"

namespace tessera {

/// Whether weight decay applies to a parameter. First hit wins: an include rule, an exclude rule,
/// one dimension or less, a name that ends in ".bias", else yes. A rule matches by equality,
/// substring or glob, against the Hugging Face name or MindFormers' name of the parameter.
bool is_decayed(const OptimizerConfig& config, const std::string& name, size_t dimensions);

}  // namespace tessera
