#pragma once

// The parallel versions of the seams. Each takes over the weights of a plain one. n ranks in
// `group`; T tokens, of which this rank's residual stream holds T / n.

#include <memory>

#include "tessera/comm/process_group.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// [T / n, I] -> [T, O_i / n]: one gather for all parts; rows of every part are cut. With `overlap`
/// it goes on behind the product (not where the parts are offered in turn).
struct ColumnProjections : Projections {
  ColumnProjections(Projections&& plain, ProcessGroup group, bool overlap);
  at::Tensor stacked(const at::Tensor& x_TI, const LayerContext& context) override;
  void forward(const at::Tensor& x_TI, const LayerContext& context,
               const Receive& receive) override;
  ProcessGroup group;
  bool overlap;

 private:
  at::Tensor low(const at::Tensor& x_TI, const LayerContext& context);  // [T, sum of ranks]
};

/// [T, I / n] -> [T / n, O]: columns are cut, partial products are reduce-scattered, with `overlap`
/// behind the product; the bias is added to the slice.
struct RowLinear : Linear {
  RowLinear(Linear&& plain, ProcessGroup group, bool overlap);
  at::Tensor forward(const at::Tensor& x_TI, const LayerContext& context) override;
  ProcessGroup group;
  bool overlap;
};

/// A norm over columns of which this rank has a part, [T, width / n]: squares are summed over the
/// ranks. `copies` neighbouring ranks hold the same columns.
struct CutNorm : Norm {
  CutNorm(Norm&& plain, ProcessGroup group, int copies);
  at::Tensor forward(const at::Tensor& x) override;
  ProcessGroup group;
  int copies;
};

/// ids [T] -> [T / n, H]: each rank looks up its rows of the vocabulary.
struct VocabularyEmbedding : Embedding {
  VocabularyEmbedding(Embedding&& plain, ProcessGroup group);
  at::Tensor forward(const at::Tensor& ids_T) override;
  ProcessGroup group;
};

/// The loss over a head whose rows are cut. With `loss_parallel` the logits stay cut: maximum, sum
/// of exponentials and target logit are summed over the ranks; else the logits are gathered. Same
/// loss on every rank.
struct VocabularyLossHead : LossHead {
  VocabularyLossHead(LossHead&& plain, ProcessGroup group, bool loss_parallel);
  at::Tensor loss(const at::Tensor& x_TH, const at::Tensor& labels_T, const at::Tensor& mask_T,
                  double loss_scale, const at::Tensor& low_TR = {}) override;
  at::Tensor logits(const at::Tensor& x_TH) override;  // [T, V]
  ProcessGroup group;
  bool loss_parallel;
};

}  // namespace tessera
