#pragma once

#include <vector>

#include "tessera/config/config.h"

namespace tessera {

/// The iterations of Newton-Schulz that an update makes on a matrix, one entry each (count 1):
/// optimizer.ns_coefficients with the counts written out, or ns_steps times the one triple.
std::vector<NewtonSchulzTriple> newton_schulz_steps(const OptimizerConfig& optimizer);

}  // namespace tessera
