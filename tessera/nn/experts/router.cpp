#include "tessera/nn/experts/router.h"

#include <ATen/ATen.h>

#include <limits>

#include "tessera/base/error.h"

namespace tessera {

namespace {

at::Tensor scores_of(const at::Tensor& logits_TX, ScoreFunction function) {
  switch (function) {
    case ScoreFunction::kSoftmax: return logits_TX.softmax(-1);
    case ScoreFunction::kSigmoid: return logits_TX.sigmoid();
    case ScoreFunction::kSqrtSoftplus: return at::softplus(logits_TX).sqrt();
  }
  TESSERA_CHECK(false, "unknown score function");
}

// Experts of all but the best groups become unreachable. choice [T, X].
at::Tensor only_best_groups(const at::Tensor& choice_TX, int64_t groups, int64_t kept) {
  const int64_t experts = choice_TX.size(1);
  const at::Tensor by_group = choice_TX.view({-1, groups, experts / groups});
  const at::Tensor group_scores =
      std::get<0>(by_group.topk(std::min<int64_t>(2, experts / groups), -1)).sum(-1);
  const at::Tensor best = std::get<1>(group_scores.topk(kept, -1));
  const at::Tensor mask = at::ones(group_scores.sizes(), group_scores.options().dtype(at::kBool))
                              .scatter(1, best, false);
  return by_group.masked_fill(mask.unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .flatten(1);
}

}  // namespace

ScoreFunction score_function(const std::string& name) {
  if (name == "softmax") return ScoreFunction::kSoftmax;
  if (name == "sigmoid") return ScoreFunction::kSigmoid;
  if (name == "sqrtsoftplus") return ScoreFunction::kSqrtSoftplus;
  throw ConfigError("model.moe_router_score_function: '" + name +
                    "' is not one of softmax, sigmoid, sqrtsoftplus");
}

std::vector<Weight*> Router::weights() {
  std::vector<Weight*> all{&weight};
  if (offset.present()) all.push_back(&offset);
  return all;
}

Routes Router::forward(const at::Tensor& x_TH, const at::Tensor& places) const {
  Routes routes;
  const at::Tensor& w = weight.value;
  routes.logits = at::linear(x_TH.to(w.scalar_type()), w, offset.value);
  const at::Tensor scores = scores_of(routes.logits, function);
  if (table.defined()) {
    routes.expert_ids = table.index_select(0, places);
  } else if (force_balance) {
    const at::Tensor turn = at::arange(top_k, places.options());
    routes.expert_ids = (places.unsqueeze(1) * top_k + turn).remainder(experts());
  } else {
    const at::NoGradGuard no_grad;
    at::Tensor choice = scores.detach();
    if (bias.defined()) choice = choice + bias;
    if (groups > top_k_groups) choice = only_best_groups(choice, groups, top_k_groups);
    routes.expert_ids = std::get<1>(choice.topk(top_k, -1));
  }
  at::Tensor weights = scores.gather(1, routes.expert_ids);
  if (normalize) weights = weights / (weights.sum(-1, true) + 1e-20);
  routes.weights = scale == 1.0 ? weights : weights * scale;
  return routes;
}

at::Tensor Router::normalized_scores(const at::Tensor& logits_TX) const {
  switch (function) {
    case ScoreFunction::kSoftmax: return logits_TX.softmax(-1);
    case ScoreFunction::kSigmoid: return at::log_sigmoid(logits_TX).softmax(-1);
    case ScoreFunction::kSqrtSoftplus: {
      // log(softplus(x)) is x itself where exp(x) is all there is of it.
      constexpr double kSmall = -30;
      const at::Tensor clamped = logits_TX.clamp_min(kSmall);
      const at::Tensor log_score =
          at::where(logits_TX < kSmall, logits_TX, at::softplus(clamped).log());
      return (log_score * 0.5).softmax(-1);
    }
  }
  TESSERA_CHECK(false, "unknown score function");
}

}  // namespace tessera
