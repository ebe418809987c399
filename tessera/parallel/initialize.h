#pragma once

#include "tessera/config/config.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// Sets the masters to the initial values of a run: a function of (training.seed, name, element)
/// alone, the same on every layout.
void initialize(ParallelModel& model, const Config& config);

/// The same for low-rank adapters alone.
void initialize_adapters(ParallelModel& model, const Config& config);

}  // namespace tessera
