#pragma once

// The largest attention logit of each head, which is watched for growth (MaxLogitsMonitor) and by
// which an optimizer may clip the heads' projections.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/nn/layer_context.h"

namespace tessera {

/// Whether attention is to say it in this pass.
bool wants_max_logits(const LayerContext& context);

/// Writes `largest_H` [heads of a call], or joins it to what earlier calls of the micro-batch said,
/// for heads [first_head, first_head + heads of the call) of the `heads` that this rank's layer
/// has.
void record_max_logits(const at::Tensor& largest_H, int64_t first_head, int64_t heads,
                       int64_t layer, const LayerContext& context);

}  // namespace tessera
