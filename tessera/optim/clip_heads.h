#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/comm/sharded_param.h"
#include "tessera/config/model_config.h"

namespace tessera {

/// Scales this rank's rows of the projections to queries and keys (QK-Clip, Kimi K2, arXiv
/// 2507.20534, 2.1). largest_LH [layers, heads], float64, on the host: the largest attention logit
/// of each head over the global batch, -infinity where it is not known. With f = threshold /
/// max(largest, threshold) the rows (and biases) of a head are multiplied by
///   heads with keys of their own: queries sqrt(f), keys sqrt(f);
///   heads that share keys: queries f;
///   latent attention: queries without rope sqrt(f), with rope f; keys sqrt(f); values 1.
void clip_heads(ParamTable& table, const ModelConfig& model, const at::Tensor& largest_LH,
                double threshold);

}  // namespace tessera
