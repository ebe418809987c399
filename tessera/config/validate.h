#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"
#include "tessera/config/parallel_dims.h"

namespace tessera {

/// Every rule that a configuration breaks at `world` ranks, all at once; also warnings and notes.
/// Never throws for what the user wrote.
std::vector<Issue> validate(const Config& config, const Provenance& provenance, int64_t world);

/// Legal settings that the engine cannot run yet, one error each.
std::vector<Issue> unsupported_yet(
    const Config& config, const Provenance& provenance, const ParallelDims& dims);

}  // namespace tessera
