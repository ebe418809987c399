#pragma once

// libtorch's flash kernels for the CPU, which compute whole blocks of 512 keys: a causal square is
// cut so that little of what the mask hides is computed, and pieces are merged by their log-sum-exp
// (Dao et al. 2022, FlashAttention). B samples, N heads, M kv heads (a divisor of N), L queries, K
// keys, D head size; tensors may have any strides with dense heads.

#include <ATen/core/Tensor.h>

namespace tessera {

struct FlashResult {
  at::Tensor out;  // [B, N, L, D], in memory [B, L, N, D]
  at::Tensor lse;  // [B, N, L], in memory [B, L, N]; float32, or float64 for float64 inputs
};
struct FlashGrads {
  at::Tensor q, k, v;  // in memory [B, L, N, D], [B, K, M, D]
};

/// softmax(q k^T * scale) v; `causal`: L = K and query i sees keys 0 to i, else it sees all. L and
/// K are at least 1: the kernel does not survive 0.
FlashResult flash_forward(const at::Tensor& q_BNLD, const at::Tensor& k_BMKD,
                          const at::Tensor& v_BMKD, bool causal, double scale);

/// Its gradients. `out` and `lse` may be the result for more keys than `k`: then dq is the part
/// that `k` adds to it, and dk and dv belong to `k` alone.
FlashGrads flash_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                          bool causal, double scale);

/// `out` and `lse` become, in place, the result for their keys and the keys of `more` together.
void flash_merge(at::Tensor& out, at::Tensor& lse, const FlashResult& more);

}  // namespace tessera
