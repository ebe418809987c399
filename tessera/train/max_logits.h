#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/nn/step_context.h"

namespace tessera {

/// Whether a MaxLogitsMonitor of `callbacks` reports step `step` (from 1).
bool reports_max_logits(const Config& config, int64_t step);

/// The largest attention logit of every head of every layer over the global batch, of what this
/// rank's attention wrote: [layers and those of multi-token prediction, heads] float64 on the host,
/// the same on every rank. Collective over the world.
at::Tensor max_logits_of_world(const Sinks& sinks, const ModelConfig& model,
                               const DeviceMesh& mesh);

}  // namespace tessera
