#pragma once

// Attention over keys that arrive piece by piece, exact: blocks of queries and keys that are either
// all visible or causal, merged by their log-sum-exp (Dao et al. 2022, FlashAttention; Liu et al.
// 2023, Ring Attention). R rows (samples), L places of a row on this rank, N heads, M kv heads, D
// size of a query or key, E of a value.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/nn/attention/attention_scores.h"

namespace tessera {

/// Queries and keys, both as places in the rank's part of a row. `causal`: the same places, each
/// query sees the keys up to its own; else all keys are earlier. Of either, those in its window.
struct VisibleBlock {
  int64_t row = -1;  // -1: the same block in every row
  Range queries;
  Range keys;
  bool causal = false;
  int64_t ahead = 0;  // places of the row from the first key to the first query
};

/// Blocks in which queries at `queries` see keys at `keys` (pieces of a row, ascending), causal
/// inside each document and, where it is not 0, inside the window; empty ones are left out. Causal
/// blocks come first. Takes the time of what it finds, not of all documents: every layer may ask
/// again.
std::vector<VisibleBlock> plan_blocks(const std::vector<Range>& queries,
                                      const std::vector<Range>& keys,
                                      const std::vector<int64_t>& document_ends, int64_t row,
                                      int64_t window = 0);

/// Multiply-adds of the scores in the blocks, per head and head dimension: pairs that are visible.
int64_t visible_pairs(const std::vector<VisibleBlock>& blocks, int64_t window = 0);

/// Output and log-sum-exp of the queries seen so far, in at least float32.
class BlockAttention {
 public:
  /// `value_size`: E of the values to come.
  BlockAttention(at::Tensor q_RLND, int64_t value_size, AttentionScores scores);
  void attend(const at::Tensor& k_RLMD, const at::Tensor& v_RLME,
              const std::vector<VisibleBlock>& blocks);
  /// From now on the largest score of each head is kept.
  void keep_largest();
  const at::Tensor& largest() const {  // [N], accumulation type; -infinity where nothing was seen
    return largest_;
  }
  /// Nothing is seen yet but the sinks.
  void clear();
  const at::Tensor& out() const {  // [R, L, N, E], accumulation type
    return out_;
  }
  const at::Tensor& lse() const {  // [R, N, L]
    return lse_;
  }

 private:
  at::Tensor q_;
  AttentionScores scores_;  // without the sinks
  at::Tensor sinks_;
  at::Tensor out_;
  at::Tensor lse_;
  at::Tensor largest_;
};

/// What the backward of a call needs; [R, L, heads, D or E], `out` in the type of q, lse [R, N, L]
/// as BlockAttention leaves it after all blocks of all keys.
struct AttentionSaved {
  const at::Tensor& grad_out;
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
  const at::Tensor& out;
  const at::Tensor& lse;
  const AttentionScores& scores;  // without sinks
};

/// Adds the gradients that the blocks of k and v (which need not be those of `saved`) give to dq,
/// dk, dv (accumulation type, [R, L, ...]).
void attend_backward(const AttentionSaved& saved, const at::Tensor& k, const at::Tensor& v,
                     const std::vector<VisibleBlock>& blocks, const at::Tensor& dq,
                     const at::Tensor& dk, const at::Tensor& dv);

}  // namespace tessera
