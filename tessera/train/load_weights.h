#pragma once

#include <string>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// Masters from a Hugging Face folder; each rank reads the bytes of its boxes. What is read is cast
/// to the type in which the parameter is stored. Throws CheckpointError that lists every missing,
/// surplus and misshapen name.
void load_hf_weights(ParallelModel& model, const Config& config, const std::string& folder);

/// Masters from what is at `path`: a Hugging Face folder, or a checkpoint (of a folder of several,
/// the newest that is whole). Nothing else of a run is read. Collective over the mesh. Throws
/// CheckpointError.
void load_weights(ParallelModel& model, const Config& config, const std::string& path,
                  const DeviceMesh& mesh);

}  // namespace tessera
