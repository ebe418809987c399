#pragma once

// The recipe: from a configuration and a mesh to this rank's part of the model, ready to step.
// Reading parallelize() top to bottom is reading which parallelism is applied in which order.

#include <memory>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// Collective over the mesh. Masters are zero: see initialize() and load_hf_weights()
/// (checkpoint/).
std::unique_ptr<ParallelModel> parallelize(const Config& config, const DeviceMesh& mesh);

}  // namespace tessera
