#pragma once

#include "tessera/comm/device_mesh.h"

namespace tessera {

/// The ranks of one stage of the pipeline, by their rank in the world: all that hold a part of the
/// same weights. Collective over the world; what it sends counts for the world's group.
ProcessGroup stage_group(const DeviceMesh& mesh);

}  // namespace tessera
