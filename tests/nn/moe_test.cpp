#include "tessera/nn/experts/moe.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "tessera/nn/experts/expert_rows.h"
#include "tessera/nn/experts/grouped_linear.h"
#include "tests/nn/gradient_check.h"
#include "tests/support/context_with_step.h"

namespace tessera {
namespace {

at::Tensor ids(const std::vector<int64_t>& values, int64_t k) {
  return at::tensor(values, at::kLong).view({-1, k});
}

TEST(ExpertOrder, ByExpertThenTokenThenChoice) {
  // A token may name an expert twice; expert 2 gets nothing.
  const ExpertOrder order = order_by_expert(ids({3, 0, 1, 1, 0, 3}, 2), {0, 4});
  EXPECT_EQ(order.counts, (std::vector<int64_t>{2, 2, 0, 2}));
  EXPECT_TRUE(at::equal(order.source, at::tensor({0, 2, 1, 1, 0, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(order.places, ids({4, 0, 2, 3, 1, 5}, 2)));
}

TEST(ExpertOrder, LeavesOutOtherExperts) {
  const ExpertOrder order = order_by_expert(ids({3, 0, 1, 2, 0, 3}, 2), {2, 4});
  EXPECT_EQ(order.counts, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(at::equal(order.source, at::tensor({1, 0, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(order.places, ids({1, -1, -1, 0, -1, 2}, 2)));
}

TEST(ExpertRows, GradientsByDifferences) {
  const ExpertOrder order = order_by_expert(ids({3, 0, 1, 2, 0, 3, 3, 2}, 2), {1, 4});
  const auto f = [&](const std::vector<at::Tensor>& inputs) {
    const at::Tensor rows = spread_rows(inputs[0], order.source, order.places);
    return combine_rows(rows * rows, order.places, inputs[1]);
  };
  expect_gradients_by_differences(f, {sample_values({4, 11}, 0.2), sample_values({4, 2}, 0.9)});
  const auto sums = [&](const std::vector<at::Tensor>& inputs) {
    return combine_rows(inputs[0], order.places, {});
  };
  expect_gradients_by_differences(sums, {sample_values({6, 5}, 0.4)});
}

TEST(ExpertRows, BFloat16) {
  const ExpertOrder order = order_by_expert(ids({1, 0, 1, 2, 0, 2}, 2), {0, 3});
  const auto f = [&](const std::vector<at::Tensor>& inputs) {
    return combine_rows(spread_rows(inputs[0], order.source, order.places), order.places,
                        inputs[1]);
  };
  expect_close_in_bfloat16(f, {sample_values({3, 16}, 0.2), sample_values({3, 2}, 0.9)});
}

TEST(GroupedLinear, GradientsByDifferencesWithAnEmptyGroup) {
  const std::vector<int64_t> rows{3, 0, 2};
  const auto f = [&](const std::vector<at::Tensor>& inputs) {
    return grouped_linear(inputs[0], inputs[1], rows, 2);
  };
  expect_gradients_by_differences(f, {sample_values({5, 4}, 0.1), sample_values({6, 3, 4}, 0.7)});
}

TEST(GroupedLinear, NoRowsAtAll) {
  at::Tensor x = at::empty({0, 4}, at::kDouble).requires_grad_(true);
  at::Tensor weight = sample_values({2, 3, 4}, 0.7).requires_grad_(true);
  const at::Tensor y = grouped_linear(x, weight, {0, 0});
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{0, 3}));
  const auto grads = torch::autograd::grad({y.sum()}, {x, weight});
  EXPECT_EQ(grads[0].numel(), 0);
  EXPECT_EQ(grads[1].abs().max().item<double>(), 0.0);
}

TEST(GroupedLinear, LibtorchsKernelAgrees) {
  const std::vector<int64_t> rows{3, 0, 2, 6};
  const at::Tensor x = sample_values({11, 8}, 0.1).to(at::kFloat);
  const at::Tensor weight = sample_values({8, 12, 8}, 0.7).to(at::kFloat);
  ASSERT_TRUE(has_grouped_product(x, weight));
  EXPECT_FALSE(has_grouped_product(x, weight.narrow(1, 0, 3)));
  const auto gradients = [&](auto f) {
    const at::Tensor a = x.clone().requires_grad_(true);
    const at::Tensor b = weight.clone().requires_grad_(true);
    const at::Tensor y = f(a, b);
    auto grads = torch::autograd::grad({(y * y).sum()}, {a, b});
    grads.push_back(y.detach());
    return grads;
  };
  const auto ours =
      gradients([&](const auto& a, const auto& b) { return grouped_linear(a, b, rows, 2); });
  const auto theirs = gradients(
      [&](const auto& a, const auto& b) { return grouped_linear_by_kernel(a, b, rows, 2); });
  for (size_t i = 0; i < ours.size(); ++i) {
    const double largest = theirs[i].abs().max().item<double>();
    EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), 1e-6 * largest) << i;
  }
}

Router make_router(int64_t experts, int64_t hidden, int64_t k) {
  Router router;
  ParameterPart part;
  part.shape = {experts, hidden};
  router.weight.parts.push_back(part);
  router.weight.dtype = at::kDouble;
  router.weight.value = sample_values({experts, hidden}, 0.4);
  router.top_k = k;
  return router;
}

// A table says where a token id goes; scores only weigh its experts, also small ones.
TEST(Router, TableOfTokenIds) {
  Router router = make_router(6, 5, 2);
  router.function = ScoreFunction::kSqrtSoftplus;
  router.table = at::tensor({5, 0, 1, 2, 3, 4}, at::kLong).view({3, 2});
  const at::Tensor x = sample_values({4, 5}, 0.8);
  const at::Tensor ids = at::tensor({2, 0, 1, 2}, at::kLong);
  const Routes routes = router.forward(x, ids);
  EXPECT_TRUE(at::equal(routes.expert_ids, router.table.index_select(0, ids)));
  const at::Tensor scores = at::softplus(at::linear(x, router.weight.value)).sqrt();
  const at::Tensor own = scores.gather(1, routes.expert_ids);
  EXPECT_TRUE(at::allclose(routes.weights, own / own.sum(-1, true), 1e-14, 0));
}

TEST(Router, SoftmaxWeightsOfTheBest) {
  Router router = make_router(6, 5, 2);
  const at::Tensor x = sample_values({7, 5}, 0.8);
  const at::Tensor scores = at::linear(x, router.weight.value).softmax(-1);
  const auto [values, best] = scores.topk(2, -1);
  const Routes normalized = router.forward(x, {});
  EXPECT_TRUE(at::equal(normalized.expert_ids, best));
  EXPECT_TRUE(at::allclose(normalized.weights, values / values.sum(-1, true), 1e-14, 0));
  router.normalize = false;
  router.scale = 2.5;
  EXPECT_TRUE(at::allclose(router.forward(x, {}).weights, values * 2.5, 1e-14, 0));
}

TEST(Router, BiasSteersTheChoiceOnly) {
  Router router = make_router(6, 5, 2);
  router.function = ScoreFunction::kSigmoid;
  router.normalize = false;
  router.bias = at::tensor({0.0, 0.0, 0.0, 10.0, 0.0, 0.0}, at::kDouble);
  const at::Tensor x = sample_values({7, 5}, 0.8);
  const Routes routes = router.forward(x, {});
  EXPECT_TRUE(routes.expert_ids.eq(3).any(1).all().item<bool>());
  const at::Tensor scores = at::linear(x, router.weight.value).sigmoid();
  EXPECT_TRUE(at::equal(routes.weights, scores.gather(1, routes.expert_ids)));
}

TEST(Router, OnlyTheBestGroups) {
  Router router = make_router(8, 5, 3);
  router.function = ScoreFunction::kSigmoid;
  router.groups = 4;
  router.top_k_groups = 2;
  router.bias = at::full({8}, -2.0, at::kDouble);  // below what a zero would be
  const at::Tensor x = sample_values({9, 5}, 0.8);
  const at::Tensor scores = at::linear(x, router.weight.value).sigmoid();
  const at::Tensor groups = std::get<1>(scores.view({9, 4, 2}).sum(-1).topk(2, -1));
  const at::Tensor chosen = router.forward(x, {}).expert_ids.div(2, "floor");
  EXPECT_TRUE((chosen.unsqueeze(2) == groups.unsqueeze(1)).any(2).all().item<bool>());
}

TEST(Router, NormalizedScoresOfTinyScores) {
  Router router = make_router(4, 5, 2);
  const at::Tensor logits = at::full({3, 4}, -57.5, at::kDouble);  // sigmoid: 1e-25
  for (const auto function : {ScoreFunction::kSigmoid, ScoreFunction::kSqrtSoftplus}) {
    router.function = function;
    EXPECT_TRUE(
        at::allclose(router.normalized_scores(logits), at::full({3, 4}, 0.25, at::kDouble)));
  }
  router.function = ScoreFunction::kSigmoid;
  const at::Tensor plain = sample_values({3, 4}, 0.2);
  const at::Tensor sigmoid = plain.sigmoid();
  EXPECT_TRUE(at::allclose(router.normalized_scores(plain), sigmoid / sigmoid.sum(-1, true)));
  router.function = ScoreFunction::kSqrtSoftplus;
  const at::Tensor root = at::softplus(plain).sqrt();
  EXPECT_TRUE(at::allclose(router.normalized_scores(plain), root / root.sum(-1, true)));
}

test::ContextWithStep context_of(int64_t rows, int64_t seq, Sinks* sinks) {
  test::ContextWithStep context;
  context.rows = rows;
  context.seq_length = seq;
  context.residual_tokens = {0, rows * seq};
  context.own->sample_scale = 1.0 / static_cast<double>(rows);
  context.own->position_scale = 1.0 / static_cast<double>(rows * seq);
  context.own->sinks = sinks;
  return context;
}

TEST(RouterLoss, BySequenceByFormula) {
  const Router router = make_router(6, 5, 2);
  const at::Tensor logits = sample_values({12, 6}, 0.6);
  const at::Tensor rows = at::arange(12, at::kLong).div(4, "floor");
  Sinks sinks;
  const auto context = context_of(3, 4, &sinks);
  RouterLoss loss;
  loss.balance = 0.01;
  double expected = 0;
  for (int64_t row = 0; row < 3; ++row) {
    const at::Tensor scores = logits.narrow(0, row * 4, 4).softmax(-1);
    const at::Tensor counts =
        std::get<1>(scores.topk(2, -1)).flatten().bincount({}, 6).to(at::kDouble);
    expected += (scores.sum(0) * counts).sum().item<double>() * 6 / (2.0 * 4 * 4) / 3;
  }
  EXPECT_NEAR(loss.forward(router, logits, rows, 1, context).item<double>(), 0.01 * expected,
              1e-15);
  EXPECT_NEAR((sinks.load_balance_loss.at({1, 0}).item<double>()), expected, 1e-13);
  // Over the micro-batch: one group of 12 tokens.
  loss.scope = BalanceScope::kMicroBatch;
  const at::Tensor scores = logits.softmax(-1);
  const at::Tensor counts =
      std::get<1>(scores.topk(2, -1)).flatten().bincount({}, 6).to(at::kDouble);
  EXPECT_NEAR(loss.forward(router, logits, rows, 1, context).item<double>(),
              0.01 * (scores.sum(0) * counts).sum().item<double>() * 6 / (2.0 * 12 * 12), 1e-15);
  loss.balance = 0;
  loss.z = 0.5;
  EXPECT_NEAR(loss.forward(router, logits, rows, 1, context).item<double>(),
              0.5 * logits.logsumexp(-1).square().mean().item<double>(), 1e-14);
}

TEST(RouterLoss, TinyScoresKeepItsLeastValue) {
  Router router = make_router(4, 5, 2);
  router.function = ScoreFunction::kSigmoid;
  const at::Tensor logits = at::full({8, 4}, -57.5, at::kDouble).requires_grad_(true);
  Sinks sinks;
  RouterLoss loss;
  loss.balance = 1.0;
  const at::Tensor value =
      loss.forward(router, logits, at::zeros({8}, at::kLong), 0, context_of(1, 8, &sinks));
  EXPECT_NEAR(value.item<double>(), 1.0, 1e-12);
  EXPECT_TRUE(torch::autograd::grad({value}, {logits})[0].isfinite().all().item<bool>());
}

MixtureOfExperts make_moe(int64_t experts, int64_t hidden, int64_t width, int64_t k) {
  MixtureOfExperts moe;
  moe.router = std::make_unique<Router>(make_router(experts, hidden, k));
  moe.dispatcher = std::make_unique<TokenDispatcher>();
  moe.experts = std::make_unique<Experts>();
  moe.experts->gate_up.value = sample_values({2 * experts, width, hidden}, 0.5);
  moe.experts->down.value = sample_values({experts, hidden, width}, 0.2);
  return moe;
}

Tensors run(MixtureOfExperts& moe, const at::Tensor& x, const LayerContext& context) {
  FeedForward::Output out = moe.forward(x, context);
  out.losses.insert(out.losses.begin(), out.y_TH);
  return out.losses;
}

// Every expert on every token, weighted by what the router gave it.
at::Tensor dense_reference(const MixtureOfExperts& moe, const at::Tensor& x, int64_t experts) {
  const Routes routes = moe.router->forward(x, {});
  at::Tensor out = at::zeros_like(x);
  for (int64_t e = 0; e < experts; ++e) {
    const at::Tensor gate = at::linear(x, moe.experts->gate_up.value[e]);
    const at::Tensor up = at::linear(x, moe.experts->gate_up.value[experts + e]);
    const at::Tensor y = at::linear(at::silu(gate) * up, moe.experts->down.value[e]);
    const at::Tensor weight = at::where(routes.expert_ids == e, routes.weights, 0).sum(1, true);
    out = out + weight * y;
  }
  return out;
}

TEST(MixtureOfExperts, EqualsEveryExpertOnEveryToken) {
  MixtureOfExperts moe = make_moe(6, 5, 7, 2);
  Sinks sinks;
  const auto context = context_of(3, 4, &sinks);
  const at::Tensor x = sample_values({12, 5}, 0.8);
  EXPECT_LT((run(moe, x, context)[0] - dense_reference(moe, x, 6)).abs().max().item<double>(),
            1e-13);
  EXPECT_EQ((sinks.tokens_per_expert.at({0, 0}).sum().item<int64_t>()), 24);
}

TEST(MixtureOfExperts, GradientsByDifferences) {
  MixtureOfExperts moe = make_moe(4, 3, 2, 2);
  moe.router_loss.balance = 0.3;
  moe.router_loss.z = 0.2;
  const auto context = context_of(2, 3, nullptr);
  const auto f = [&](const std::vector<at::Tensor>& inputs) {
    moe.router->weight.value = inputs[1];
    moe.experts->gate_up.value = inputs[2];
    moe.experts->down.value = inputs[3];
    const Tensors out = run(moe, inputs[0], context);
    return out[0] + out[1];
  };
  expect_gradients_by_differences(
      f, {sample_values({6, 3}, 0.8), moe.router->weight.value.clone(),
          moe.experts->gate_up.value.clone(), moe.experts->down.value.clone()});
}

TEST(MixtureOfExperts, AllTokensToOneExpert) {
  MixtureOfExperts moe = make_moe(4, 5, 7, 1);
  moe.router->function = ScoreFunction::kSigmoid;
  moe.router->normalize = false;
  moe.router->bias = at::tensor({0.0, 0.0, 9.0, 0.0}, at::kDouble);
  Sinks sinks;
  const auto context = context_of(2, 4, &sinks);
  const at::Tensor x = sample_values({8, 5}, 0.8);
  EXPECT_LT((run(moe, x, context)[0] - dense_reference(moe, x, 4)).abs().max().item<double>(),
            1e-13);
  EXPECT_TRUE(at::equal(sinks.tokens_per_expert.at({0, 0}), at::tensor({0, 0, 8, 0}, at::kLong)));
}

TEST(MixtureOfExperts, PaddedTokensAreNeitherRoutedNorCounted) {
  MixtureOfExperts moe = make_moe(6, 5, 7, 2);
  moe.router_loss.balance = 1.0;
  Sinks sinks;
  auto context = context_of(2, 6, &sinks);
  context.padded = at::zeros({12}, at::kBool);
  context.padded.slice(0, 9).fill_(true);  // half of the second row
  const at::Tensor x = sample_values({12, 5}, 0.8);
  const Tensors out = run(moe, x, context);
  EXPECT_EQ((sinks.tokens_per_expert.at({0, 0}).sum().item<int64_t>()), 18);
  EXPECT_EQ(out[0].slice(0, 9).abs().max().item<double>(), 0.0);
  EXPECT_LT((out[0] - dense_reference(moe, x, 6)).slice(0, 0, 9).abs().max().item<double>(), 1e-13);
  // The loss is that of the tokens which are there.
  Sinks alone;
  const at::Tensor logits = at::linear(x.narrow(0, 6, 3), moe.router->weight.value);
  auto one = context_of(1, 3, &alone);
  const double second =
      moe.router_loss.forward(*moe.router, logits, at::zeros({3}, at::kLong), 0, one)
          .item<double>();
  const at::Tensor first_logits = at::linear(x.narrow(0, 0, 6), moe.router->weight.value);
  const double first =
      moe.router_loss.forward(*moe.router, first_logits, at::zeros({6}, at::kLong), 0, one)
          .item<double>();
  EXPECT_NEAR(out[1].item<double>(), (first + second) / 2, 1e-13);
  // Nothing but padding still has a graph.
  context.padded.fill_(true);
  const at::Tensor leaf = x.clone().requires_grad_(true);
  const Tensors nothing = run(moe, leaf, context);
  EXPECT_EQ(nothing[0].abs().max().item<double>(), 0.0);
  EXPECT_EQ(
      torch::autograd::grad({nothing[0].sum() + nothing[1]}, {leaf})[0].abs().max().item<double>(),
      0.0);
}

}  // namespace
}  // namespace tessera
