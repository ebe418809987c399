#pragma once

#include "tessera/config/config.h"

namespace tessera {

/// Floating-point operations of an update over `samples` sequences, forward and backward (factor
/// 3 x 2 of the multiply-adds), as MindFormers counts them for its throughput column: attention
/// over the full square, the head once, routed experts by the chosen ones.
double model_flops(const ModelConfig& model, double samples, double seq_length);

}  // namespace tessera
