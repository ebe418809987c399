#pragma once

// Tensor parallelism with sequence parallelism (Shoeybi et al. 2019; Korthikanti et al. 2022):
// every attention and feed-forward matrix is cut over tp, norms and residuals work on the rank's
// slice of the tokens. Built from outside: the seams of the plain decoder are replaced, weights are
// marked.

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Replaces the seams of `decoder`. Collective over the tp axis. A tp axis of one changes nothing.
void tensor_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh);

}  // namespace tessera
