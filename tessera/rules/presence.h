#pragma once

#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"
#include "tessera/config/load.h"

namespace tessera {

/// What the configuration asks for and this machine has not, one error each: token files, a CUDA
/// device.
std::vector<Issue> check_presence(const Config& config, const Provenance& provenance);

}  // namespace tessera
