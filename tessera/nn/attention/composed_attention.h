#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/nn/attention/attention_scores.h"

namespace tessera {

/// Attention, causal inside each document, out of libtorch's differentiable operators, for devices
/// other than the CPU: document by document its fused kernel, or plain products with the scores of
/// all pairs where that cannot do it. q [B, N, L, D], k [B, M, L, D], v [B, M, L, E], ends of the
/// documents of each sample (none: one each) -> [B, N, L, E]. `largest`, if given, becomes [B, N]:
/// the largest scores.
at::Tensor composed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionScores& scores,
                              const std::vector<std::vector<int64_t>>& document_ends,
                              at::Tensor* largest);

}  // namespace tessera
