#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"
#include "tessera/config/parallel_dims.h"

namespace tessera {

/// Degrees of `config` at `world` ranks; what breaks a rule is appended to `issues` with the legal
/// values, and the degrees returned are then only good for finding more errors.
ParallelDims derive_dims(
    const Config& config, const Provenance& provenance, int64_t world, std::vector<Issue>& issues);

/// The same for a configuration known to be good. Throws ConfigError with all issues otherwise.
ParallelDims derive_dims(const Config& config, int64_t world);

}  // namespace tessera
