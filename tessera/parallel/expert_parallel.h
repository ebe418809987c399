#pragma once

// Expert parallelism: the experts of a layer are cut over the ep axis, their weights further over
// efsdp; tokens travel to them and back. Built from outside, as tensor parallelism is.

#include <utility>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Replaces dispatchers and statistics of the layers with experts and marks their weights; call it
/// after tensor_parallel(). Router and experts work on the residual stream's slice of the tokens,
/// so what is whole on every rank of a tp group has partial gradients over tp. Collective over ep.
void expert_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh);

/// Weights of the dense mesh, and of the sparse mesh (cut over ep).
std::pair<std::vector<Weight*>, std::vector<Weight*>> split_off_experts(
    const std::vector<Weight*>& weights);

}  // namespace tessera
