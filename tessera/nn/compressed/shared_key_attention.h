#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera {

/// What queries attend over where every head has the same key and the key is its own value
/// (DeepSeek-V4). T = rows x s tokens, N heads, D size, E entries of a sample, K chosen.
struct SharedKeys {
  int64_t rows = 1;
  int64_t window = 1;          // own keys that a query sees, itself the last
  int64_t ratio = 0;           // tokens of an entry; 0: there are no entries
  double scale = 1.0;          // on q k
  at::Tensor keys_TD;          // of the tokens themselves
  at::Tensor entries_BED;      // [rows, E, D], or undefined
  at::Tensor chosen_TK;        // [T, K] int32: the entries of each query, -1: none; undefined: all
                               // that it can see
  at::Tensor sinks_N;          // one more logit a head, whose share is dropped
  at::Tensor document_begins;  // [rows, s] int64 or undefined, see nn/attention/document_begins.h
};

/// One softmax over the window and the entries: out = sum of p_j k_j, p_j = exp(scale q k_j) / (sum
/// + exp(sink)). q [T, N, D] -> [T, N, D] in the type of q; computed in at least float32.
/// Differentiable in q, keys, entries and sinks. A block of queries is computed at a time, and only
/// on keys near it and on chosen entries; kept are inputs, result and a number for each query and
/// head.
at::Tensor shared_key_attention(const at::Tensor& q_TND, const SharedKeys& over);

}  // namespace tessera
