#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/nn/attention/attention_scores.h"
#include "tessera/nn/layer_context.h"

namespace tessera {

/// Attention, causal inside each document of the micro-batch, whose tokens are whole samples, row
/// after row. q [T, N, D], k [T, M, D], v [T, M, E] with M a divisor of N; any strides with dense
/// heads. Returns [T, N, E]. `largest`, if given, becomes [rows, N]: the largest score of each
/// sample and head, without gradient. On the CPU by our kernel in float64, float32 and bfloat16;
/// memory is linear in T everywhere but on other devices.
at::Tensor local_attention(const at::Tensor& q_TND, const at::Tensor& k_TMD,
                           const at::Tensor& v_TME, const LayerContext& context,
                           const AttentionScores& scores, at::Tensor* largest = nullptr);

}  // namespace tessera
