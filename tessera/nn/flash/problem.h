#pragma once

// What the attention kernel computes, over raw memory. B samples, N heads, M kv heads (a divisor of
// N), L queries, K keys, D size of a query or key, E size of a value. T is float, double or Bf16;
// sums are in Wide<T>, as are log-sum-exps and gradients.

#include <cstdint>

#include "tessera/nn/kernels/vector_math.h"

namespace tessera::kernels::flash {

/// A tensor [B, heads, places, size] whose last dimension is dense, by its strides in elements.
template <typename T>
struct Heads {
  T* data = nullptr;
  int64_t sample = 0;
  int64_t head = 0;
  int64_t place = 0;

  TESSERA_INLINE T* row(int64_t b, int64_t h, int64_t i) const {
    return data + b * sample + h * head + i * place;
  }
};

struct Sizes {
  int64_t samples = 0, heads = 0, kv_heads = 0;
  int64_t queries = 0, keys = 0;
  int64_t size = 0, value_size = 0;

  int64_t heads_of_kv() const { return heads / kv_heads; }
};

/// Which keys a query sees: query i stands at first_query + i of its row and key j at
/// first_key + j. All of these must hold.
struct Mask {
  bool causal = true;  // it does not see later keys
  int64_t first_query = 0;
  int64_t first_key = 0;
  int64_t window = 0;  // it sees itself and the window - 1 places before it; 0: any number
  /// [B, L] place in the row where the query's document begins, or null: one document. Ascending.
  /// Where documents end is told by `causal`.
  const int64_t* document_begins = nullptr;
};

/// The scores: q k^T * scale, then cap * tanh(score / cap) where a cap is given (Gemma 2, arXiv
/// 2408.00118, section 2).
struct Scores {
  double scale = 1;  // above 0
  double cap = 0;    // 0: none
};

template <typename T>
struct ForwardProblem {
  using W = Wide<T>;
  Sizes sizes;
  Mask mask;
  Scores scores;
  Heads<const T> q, k, v;
  /// [N] one more logit a head in the denominator alone (gpt-oss), or null.
  const W* sinks = nullptr;
  /// out [B, N, L, E] is written in T, or in W where `wide`. A query that sees nothing: zeros.
  Heads<T> out;
  Heads<W> wide_out;
  bool wide = false;
  /// Log-sum-exp of the scores and the sink [B, N, L]: `place` is its stride between queries. A
  /// query that sees nothing: -infinity.
  Heads<W> lse;
  /// out (wide) and lse hold the result for other keys: they become that for all keys together.
  bool merge = false;
  /// [B, N, blocks of queries] largest score of each, or null; -infinity where nothing is seen.
  W* largest = nullptr;
};

template <typename T>
struct BackwardProblem {
  using W = Wide<T>;
  Sizes sizes;
  Mask mask;
  Scores scores;
  Heads<const T> q, k, v, out, grad_out;
  Heads<const W> lse;  // of all keys that `out` is for, among them these
  const W* sinks = nullptr;
  /// To these the gradients are added; or they become the gradients, unless `add`.
  Heads<W> dq, dk, dv;
  bool add = true;
  W* dsinks = nullptr;  // [B, N], added to; or null without sinks
};

}  // namespace tessera::kernels::flash
