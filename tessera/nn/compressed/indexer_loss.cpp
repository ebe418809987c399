#include "tessera/nn/compressed/indexer_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "tessera/nn/compressed/add_rows.h"
#include "tessera/nn/compressed/entry_sight.h"
#include "tessera/nn/scalar_type.h"

// L queries of a block, K chosen entries of each; the rest as in indexer.h.

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kQueriesOfABlock = 64;
constexpr double kTiny = 1e-9;

at::Tensor wide(const at::Tensor& x) { return x.to(accumulation_type(x.scalar_type())); }

// [L, K, D]: the chosen rows of [E, D].
at::Tensor chosen_rows(const at::Tensor& from_ED, const at::Tensor& indices_LK) {
  return from_ED.index_select(0, indices_LK.flatten())
      .unflatten(0, {indices_LK.size(0), indices_LK.size(1)});
}

// softmax over the entries that are there; zeros where none is.
at::Tensor share_of(const at::Tensor& scores, const at::Tensor& missing) {
  const double none = -std::numeric_limits<double>::infinity();
  const at::Tensor empty = missing.all(-1, /*keepdim=*/true);
  return scores.masked_fill(missing, none)
      .masked_fill(empty, 0)
      .softmax(-1)
      .masked_fill(missing, 0);
}

// P of the loss, [L, K].
at::Tensor attention_share(const at::Tensor& q_LND, const at::Tensor& entries_LKD,
                           const at::Tensor& missing_LK, double scale) {
  const at::Tensor scores_LNK = at::bmm(q_LND, entries_LKD.transpose(1, 2)) * scale;
  const at::Tensor missing = missing_LK.unsqueeze(1).expand_as(scores_LNK);
  return share_of(scores_LNK, missing).sum(1) / static_cast<double>(q_LND.size(1));
}

at::Tensor index_share(const at::Tensor& q_Lhd, const at::Tensor& weight_Lh,
                       const at::Tensor& keys_LKd, const at::Tensor& missing_LK) {
  const at::Tensor products = at::bmm(q_Lhd, keys_LKd.transpose(1, 2)).relu();
  return share_of(at::bmm(weight_Lh.unsqueeze(1), products).squeeze(1), missing_LK);
}

at::Tensor divergence(const at::Tensor& p_LK, const at::Tensor& q_LK) {
  const at::Tensor part = p_LK / (p_LK.sum(-1, /*keepdim=*/true) + kTiny);
  return (p_LK * (part.clamp_min(kTiny).log() - (q_LK + kTiny).log())).sum();
}

struct IndexerLoss : torch::autograd::Function<IndexerLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_Thd,
                            const at::Tensor& weight_Th, const at::Tensor& keys_BEd,
                            const IndexerTarget& target, double weight) {
    const at::Tensor dq = at::empty_like(q_Thd, at::MemoryFormat::Contiguous);
    const at::Tensor dweight = at::empty_like(weight_Th, at::MemoryFormat::Contiguous);
    const at::Tensor dkeys = at::zeros_like(keys_BEd, at::MemoryFormat::Contiguous);
    at::Tensor loss = at::zeros({}, q_Thd.options());
    const int64_t rows = keys_BEd.size(0), length = q_Thd.size(0) / rows;
    over_query_blocks(rows, length, kQueriesOfABlock, {}, [&](const QueryBlock& block) {
      const auto part = [&](const at::Tensor& x) {
        return x.narrow(0, block.row * length + block.first, block.size());
      };
      const at::Tensor chosen_LK = part(target.chosen_TK);
      const at::Tensor missing = chosen_LK < 0, indices = chosen_LK.clamp_min(0);
      const at::Tensor p_LK =
          attention_share(wide(part(target.q_TND)),
                          chosen_rows(wide(target.entries_BED.select(0, block.row)), indices),
                          missing, target.scale);
      const at::AutoGradMode with_gradients(true);
      const auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(true); };
      const at::Tensor q = leaf(part(q_Thd)), w = leaf(part(weight_Th));
      const at::Tensor keys = leaf(chosen_rows(keys_BEd.detach().select(0, block.row), indices));
      const at::Tensor own = divergence(p_LK, index_share(q, w, keys, missing)) * weight;
      const auto gradients = torch::autograd::grad({own}, {q, w, keys});
      const at::NoGradGuard no_grad;
      part(dq).copy_(gradients[0]);
      part(dweight).copy_(gradients[1]);
      add_rows(dkeys.select(0, block.row), indices.flatten(), gradients[2].flatten(0, 1));
      loss += own.detach();
    });
    ctx->save_for_backward({dq, dweight, dkeys});
    return loss;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto made = ctx->get_saved_variables();
    return {made[0] * grads[0], made[1] * grads[0], made[2] * grads[0], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor indexer_loss(const IndexScores& scores, const IndexerTarget& target, double weight) {
  if (target.chosen_TK.size(1) == 0) return at::zeros({}, scores.q_Thd.options());
  const IndexerTarget fixed{target.q_TND.detach(), target.entries_BED.detach(), target.chosen_TK,
                            target.scale};
  return IndexerLoss::apply(scores.q_Thd, scores.weight_Th, scores.keys_BEd, fixed, weight);
}

}  // namespace tessera
