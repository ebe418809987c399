#pragma once

// Context parallelism: the sequence is cut over cp ranks; only attention notices. It enters through
// the CoreAttention seam, for every method one algorithm: the cp ranks form a grid of `outer` rows
// of `inner` neighbours. Inside a row heads are traded for sequence; between rows keys and values
// travel and blocks are merged. colossal: inner 1; ulysses: outer 1; hybrid: both.

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Size of the inner axis (the Ulysses degree) of the configured method.
int64_t inner_degree(const ParallelismConfig& config);

/// Replaces the attention of every layer. Collective over the cp axis. cp = 1 changes nothing.
void context_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh);

}  // namespace tessera
