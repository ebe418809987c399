#pragma once

// Attention over keys that arrive piece by piece, exact: blocks of queries and keys that are either
// all visible or causal, merged by their log-sum-exp (Dao et al. 2022, FlashAttention; Liu et al.
// 2023, Ring Attention). R rows (samples), L places of a row on this rank, N heads, M kv heads, D.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/box.h"

namespace tessera {

/// Queries and keys, both as places in the rank's part of a row. `causal`: the same places, each
/// query sees the keys up to its own; else every query sees every key.
struct VisibleBlock {
  int64_t row = -1;  // -1: the same block in every row
  Range queries;
  Range keys;
  bool causal = false;
};

/// Blocks in which queries at `queries` see keys at `keys` (pieces of a row, ascending), causal
/// inside each document; empty ones are left out. Causal blocks come first: they hold every query
/// of a rank once when `queries` and `keys` are its own. Takes the time of what it finds, not of
/// all documents: every layer may ask again.
std::vector<VisibleBlock> plan_blocks(const std::vector<Range>& queries,
                                      const std::vector<Range>& keys,
                                      const std::vector<int64_t>& document_ends, int64_t row);

/// Multiply-adds of the scores in the blocks, per head and head dimension: pairs that are visible.
int64_t visible_pairs(const std::vector<VisibleBlock>& blocks);

/// Output and log-sum-exp of the queries seen so far, in at least float32.
class BlockAttention {
 public:
  BlockAttention(at::Tensor q_RLND, double scale);
  /// The causal blocks of the queries themselves go first.
  void attend(const at::Tensor& k_RLMD, const at::Tensor& v_RLMD,
              const std::vector<VisibleBlock>& blocks);
  const at::Tensor& out() const {  // [R, L, N, D], accumulation type
    return out_;
  }
  const at::Tensor& lse() const {  // [R, N, L]
    return lse_;
  }

  /// From now on the largest score of each head is watched.
  void watch_largest();
  const at::Tensor& largest() const {  // [N]
    return largest_;
  }

 private:
  at::Tensor q_;
  double scale_;
  at::Tensor out_;
  at::Tensor lse_;
  at::Tensor largest_;  // undefined: not watched
};

/// Adds the gradients that the blocks give to dq, dk, dv (accumulation type, [R, L, …]). `out` in
/// the type of q, `lse` as BlockAttention leaves them after all blocks of all keys.
void attend_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                     const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                     const std::vector<VisibleBlock>& blocks, double scale, at::Tensor& dq,
                     at::Tensor& dk, at::Tensor& dv);

}  // namespace tessera
