#pragma once

// Context parallelism: the sequence is cut over cp ranks; only attention notices. It enters through
// the CoreAttention seam, for every method one algorithm: the cp ranks form a grid of `outer`
// groups of `inner` neighbours (layout/context_grid.h). Inside a group heads are traded for
// sequence; between groups keys and values travel, and blocks are merged.

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Replaces the attention of every layer. Collective over the cp axis. cp = 1 changes nothing.
void context_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh);

}  // namespace tessera
