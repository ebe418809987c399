#include "tessera/nn/experts/router_loss.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"

namespace tessera {

BalanceScope balance_scope(const std::string& name) {
  if (name == "seq_aux_loss" || name == "sub_seq_aux_loss") return BalanceScope::kSequence;
  if (name == "aux_loss") return BalanceScope::kMicroBatch;
  if (name == "global_aux_loss") return BalanceScope::kGlobalBatch;
  throw ConfigError("model.moe_router_load_balancing_type: '" + name +
                    "' is not one of seq_aux_loss, aux_loss, global_aux_loss");
}

namespace {

// This rank's share of the balance loss, without its coefficient.
at::Tensor balance_loss(const Router& router, const at::Tensor& logits_TX, const at::Tensor& rows,
                        BalanceScope scope, RouterStatistics& statistics,
                        const LayerContext& context) {
  const int64_t experts = logits_TX.size(1);
  const int64_t k = router.top_k;
  const at::Tensor scores_TX = router.normalized_scores(logits_TX);
  const bool by_sequence = scope == BalanceScope::kSequence;
  const int64_t groups = by_sequence ? context.rows : 1;

  at::Tensor counts_GX;  // of the k best scores, whatever steers the choice
  {
    const at::NoGradGuard no_grad;
    at::Tensor best = std::get<1>(scores_TX.detach().topk(k, -1));
    if (by_sequence) best = best + (rows * experts).unsqueeze(1);
    const at::Tensor counts = best.flatten().bincount({}, groups * experts).view({groups, experts});
    counts_GX = scope == BalanceScope::kGlobalBatch ? statistics.over_batch(counts)
                                                    : statistics.over_samples(counts);
  }
  at::Tensor sums_GX;
  if (by_sequence) {
    const at::Tensor member_GT =
        (rows.unsqueeze(0) == at::arange(groups, rows.options()).unsqueeze(1))
            .to(scores_TX.scalar_type());
    sums_GX = at::mm(member_GT, scores_TX);
  } else {
    sums_GX = scores_TX.sum(0, true);
  }
  // A group's tokens are its counts over k; the mean over groups counts them in samples.
  const at::Tensor wide = counts_GX.to(at::kDouble);
  const at::Tensor tokens_G1 = wide.sum(1, true) / static_cast<double>(k);
  double group_share = 1.0;
  if (scope == BalanceScope::kSequence) group_share = context.step->sample_scale;
  if (scope == BalanceScope::kMicroBatch) {
    group_share = context.step->sample_scale * static_cast<double>(context.rows);
  }
  const double factor = group_share * static_cast<double>(experts) / static_cast<double>(k);
  const at::Tensor weights_GX =
      at::where(tokens_G1 > 0, wide * factor / tokens_G1.square().clamp_min(1), 0);
  return (sums_GX * weights_GX.to(sums_GX.scalar_type())).sum();
}

}  // namespace

at::Tensor RouterLoss::forward(const Router& router, const at::Tensor& logits_TX,
                               const at::Tensor& rows, int64_t layer,
                               const LayerContext& context) const {
  at::Tensor total = at::zeros({}, logits_TX.options());
  Sinks* const sinks = context.sinks();
  const Sinks::Key key{layer, context.micro_batch};
  if (balance > 0) {
    const at::Tensor share = balance_loss(router, logits_TX, rows, scope, *statistics, context);
    total = total + share * balance;
    if (sinks != nullptr) sinks->load_balance_loss[key] = share.detach();
  }
  if (z > 0) {
    const at::Tensor share =
        logits_TX.logsumexp(-1).square().sum() * (z * context.step->position_scale);
    total = total + share;
    if (sinks != nullptr) sinks->z_loss[key] = share.detach();
  }
  return total;
}

}  // namespace tessera
