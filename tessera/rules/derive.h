#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// The degrees of `config` at `world` ranks: data parallel = world / (tp * cp * pp), dp_shard as
/// asked (-1: all of it), dp_replicate the rest. Throws ConfigError with every broken rule and the
/// legal values; validate reports the same.
ParallelDims derive_dims(const Config& config, int64_t world);

class Checker;

/// The same for the rules: what is broken goes to `check`, which learns in dims_ok whether the
/// result is good for finding more.
ParallelDims derive_dims(Checker& check, int64_t world);

}  // namespace tessera
