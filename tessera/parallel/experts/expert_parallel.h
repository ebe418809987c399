#pragma once

// Expert parallelism: the experts of a layer are cut over the ep axis, their weights further over
// efsdp; tokens travel to them and back. Built from outside, as tensor parallelism is.

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Replaces dispatchers and statistics of the layers with experts; call it after tensor_parallel().
/// Router and experts work on the residual stream's slice of the tokens. Collective over ep.
void expert_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh);

}  // namespace tessera
