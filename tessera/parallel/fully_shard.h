#pragma once

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// FSDP / HSDP: adds to `model` the sharded units of `decoder`, whose weights are placed, and its
/// chunk of calls. A unit of the decoder is one sharded unit; experts that ep cuts are one by
/// themselves. A call also uses the units that hold weights it shares with others.
void fully_shard(ParallelModel& model, Decoder& decoder, const Config& config,
                 const DeviceMesh& mesh);

}  // namespace tessera
