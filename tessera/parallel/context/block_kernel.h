#pragma once

// Attention of one block that is merged with what the queries saw before, and its derivative from
// the merged result. q and grad_out [B, N, l, D], k [B, M, m, D], v [B, M, m, E]; out [B, N, l, E]
// and lse [B, N, l] in the accumulation type; kv heads M divide query heads N. Sinks count once, in
// the lse with which the first block begins.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/nn/attention/flash_attention.h"

namespace tessera {

/// `out` and `lse` become, in place, the result for these keys and those before (zeros and
/// -infinity: none). On the CPU our kernel; elsewhere plain products. Returns the largest score of
/// each sample and head [B, N], if asked for.
at::Tensor attend_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttentionScores& scores, const FlashPlaces& places,
                        const at::Tensor& out, const at::Tensor& lse, bool with_largest = false);

/// What a gradient of the block needs: `out` (in the type of q) and `lse` for all keys.
struct BlockSaved {
  const at::Tensor& grad_out;
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
  const at::Tensor& out;
  const at::Tensor& lse;
};
/// In the accumulation type.
struct BlockGrads {
  at::Tensor q, k, v;
};

/// Adds to dq, dk, dv what the block gives, whose share of the result is exp(scores - lse) v.
void attend_block_backward(const BlockSaved& saved, const AttentionScores& scores,
                           const FlashPlaces& places, const BlockGrads& grads);

/// Memory that the scores of the plain products may take at once, twice in the backward pass.
constexpr int64_t kScoreBytes = int64_t{256} << 20;

/// The plain products, on any device: run by run of queries, so that the scores of a run ([B, N,
/// queries, m]) take no more than `score_bytes` (or are those of one query).
at::Tensor attend_block_by_products(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const AttentionScores& scores, const FlashPlaces& places,
                                    const at::Tensor& out, const at::Tensor& lse, bool with_largest,
                                    int64_t score_bytes = kScoreBytes);
void attend_block_backward_by_products(const BlockSaved& saved, const AttentionScores& scores,
                                       const FlashPlaces& places, const BlockGrads& grads,
                                       int64_t score_bytes = kScoreBytes);

}  // namespace tessera
