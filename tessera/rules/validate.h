#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/config/issue.h"
#include "tessera/config/load.h"
#include "tessera/config/optimizer_kind.h"

namespace tessera {

/// Every rule that a configuration breaks at `world` ranks, all at once; also warnings and notes.
/// `ranks_per_node` 0: unknown. `families`, `optimizers`: those that the file was read with.
/// Never throws for what the user wrote.
std::vector<Issue> validate(const Config& config, const Provenance& provenance, int64_t world,
                            int64_t ranks_per_node = 0,
                            const FamilyTable& families = builtin_families(),
                            const OptimizerTable& optimizers = builtin_optimizers());

/// What reading found and what validation finds, without follow-ups of what could not be read.
std::vector<Issue> validate(const ConfigResult& result, int64_t world, int64_t ranks_per_node = 0,
                            const FamilyTable& families = builtin_families(),
                            const OptimizerTable& optimizers = builtin_optimizers());

}  // namespace tessera
