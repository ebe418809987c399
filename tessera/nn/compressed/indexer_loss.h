#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/nn/compressed/indexer.h"

namespace tessera {

/// What the indexer is to learn: how attention weighs the chosen entries.
struct IndexerTarget {
  at::Tensor q_TND;        // of the attention
  at::Tensor entries_BED;  // of the attention
  at::Tensor chosen_TK;    // [T, K] int32, -1: none
  double scale = 1.0;      // of the attention
};

/// weight x sum over queries and their chosen entries of P (log max(P / (sum P + 1e-9), 1e-9) -
/// log(Q + 1e-9)); P: softmax of scale q c over the chosen, summed over heads and divided by its
/// sum; Q: softmax of the indexer's scores over the same. A query without any adds nothing.
/// (MindFormers' loss of DeepSeek-V4.) Gradient into `scores` alone, and made with the loss, a
/// block of queries at a time.
at::Tensor indexer_loss(const IndexScores& scores, const IndexerTarget& target, double weight);

}  // namespace tessera
