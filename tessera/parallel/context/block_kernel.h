#pragma once

// Attention of one block that also gives the log-sum-exp, so that blocks can be merged, and its
// derivative from a merged one. q, out and grad_out [B, N, l, D], k and v [B, M, m, D], lse
// [B, N, l]; kv heads M divide query heads N.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <utility>

namespace tessera {

/// {out, lse}. Causal: query i sees keys 0 to i. On the CPU libtorch's flash kernel; elsewhere
/// plain products.
std::pair<at::Tensor, at::Tensor> attend_block(const at::Tensor& q, const at::Tensor& k,
                                               const at::Tensor& v, bool causal, double scale);

/// {dq, dk, dv} of the block, whose share of the result is exp(scores - lse) v.
std::array<at::Tensor, 3> attend_block_backward(const at::Tensor& grad_out, const at::Tensor& q,
                                                const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& out, const at::Tensor& lse,
                                                bool causal, double scale);

/// Memory that the scores of the plain products may take at once, twice in the backward pass.
constexpr int64_t kScoreBytes = int64_t{256} << 20;

/// The plain products, on any device: run by run of queries, so that the scores of a run ([B, N,
/// queries, m]) take no more than `score_bytes` (or are those of one query).
std::pair<at::Tensor, at::Tensor> attend_block_by_products(const at::Tensor& q, const at::Tensor& k,
                                                           const at::Tensor& v, bool causal,
                                                           double scale,
                                                           int64_t score_bytes = kScoreBytes);
std::array<at::Tensor, 3> attend_block_backward_by_products(
    const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, bool causal, double scale,
    int64_t score_bytes = kScoreBytes);

}  // namespace tessera
