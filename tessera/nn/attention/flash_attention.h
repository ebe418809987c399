#pragma once

// The attention kernel (nn/flash/) on tensors of the CPU: float32, float64 and bfloat16, which is
// computed in float32 and rounded once. B samples, N heads, M kv heads (a divisor of N), L queries,
// K keys, D size of a query or key, E size of a value; tensors may have any strides with dense
// heads. Nothing of L x K exists at once: a thread works in a room of a few blocks, on the heap.
// Results depend on neither the number of threads nor on which samples and kv heads are in a call.

#include <ATen/core/Tensor.h>

#include "tessera/nn/attention/attention_scores.h"

namespace tessera {

/// Where queries and keys stand in their row: query i at first_query + i, key j at first_key + j.
struct FlashPlaces {
  bool causal = true;  // no query sees a later key
  int64_t first_query = 0;
  int64_t first_key = 0;
  at::Tensor document_begins;  // [B, L] int64: place where the query's document begins, ascending;
                               // undefined: a row is one document
};

struct FlashResult {
  at::Tensor out;      // [B, N, L, E], in memory [B, L, N, E]; zeros where nothing is seen
  at::Tensor lse;      // [B, N, L] log-sum-exp, float32, or float64 for float64 inputs; -infinity
                       // where nothing is seen
  at::Tensor largest;  // [B, N] largest score of what is seen, in the type of lse, if asked for
};
FlashResult flash_forward(const at::Tensor& q_BNLD, const at::Tensor& k_BMKD,
                          const at::Tensor& v_BMKE, const AttentionScores& scores,
                          const FlashPlaces& places, bool with_largest = false);

/// out [B, N, L, E] and lse [B, N, L], both in the type of lse, hold a result for other keys (zeros
/// and -infinity: for none): they become, in place, the result for these and those together.
/// `scores` has no sinks: they count once, so start from their logit as lse. Returns FlashResult's
/// `largest` of these keys, if asked for.
at::Tensor flash_merge(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                       const at::Tensor& k, const at::Tensor& v, const AttentionScores& scores,
                       const FlashPlaces& places, bool with_largest = false);

/// Adds the gradients to dq [B, N, L, D], dk [B, M, K, D] and dv [B, M, K, E] (the type of lse, any
/// strides with dense heads), or writes them where not `add`. `out` and `lse` may be the result for
/// more keys than `k`: then these are the parts that belong to `k`. Returns that of the sinks [N],
/// or undefined without sinks.
at::Tensor flash_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                          const AttentionScores& scores, const FlashPlaces& places,
                          const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                          bool add);

}  // namespace tessera
