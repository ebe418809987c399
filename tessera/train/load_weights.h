#pragma once

#include <string>

#include "tessera/config/config.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// Masters from a Hugging Face folder; each rank reads the bytes of its boxes. What is read is cast
/// to the type in which the parameter is stored. Throws CheckpointError that lists every missing,
/// surplus and misshapen name.
void load_hf_weights(ParallelModel& model, const Config& config, const std::string& folder);

}  // namespace tessera
