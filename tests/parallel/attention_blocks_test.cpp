#include "tessera/parallel/context/attention_blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tessera/data/token_split.h"

namespace tessera {
namespace {

// softmax over the visible keys, [S, N, D] x [S, M, D], in float64.
at::Tensor reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::vector<int64_t>& ends, double scale, int64_t window) {
  const int64_t s = q.size(0);
  at::Tensor visible = at::zeros({s, s}, at::kBool);
  int64_t begin = 0;
  for (const int64_t end : ends) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = window > 0 ? std::max(begin, i - window + 1) : begin;
      visible[i].slice(0, first, i + 1).fill_(true);
    }
    begin = end;
  }
  const int64_t copies = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(copies, 1), values = v.repeat_interleave(copies, 1);
  at::Tensor scores = at::einsum("qnd,knd->nqk", {q, keys}) * scale;
  scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  return at::einsum("nqk,knd->qnd", {scores.softmax(-1), values});
}

double allowed(const at::Tensor& gradient) {
  return 1e-12 * std::max(1.0, gradient.norm().item<double>());
}

struct Case {
  std::string name;
  int64_t cp;
  TokenBalance balance;
  std::vector<int64_t> ends;
  int64_t kv_heads;
  int64_t window = 0;
};

class Blocks : public testing::TestWithParam<Case> {};

// Queries of every rank against the keys of every rank, block by block, scores in +-200.
TEST_P(Blocks, ForwardAndBackwardAreExact) {
  const Case& c = GetParam();
  const int64_t s = c.ends.back(), heads = 4, size = 8;
  at::manual_seed(7);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  at::Tensor q = (at::rand({s, heads, size}, options) - 0.5) * 20;
  at::Tensor k = (at::rand({s, c.kv_heads, size}, options) - 0.5) * 20;
  at::Tensor v = at::randn({s, c.kv_heads, size}, options);
  const double scale = 1.0;
  ASSERT_GT(at::einsum("qnd,knd->nqk", {q, k.repeat_interleave(heads / c.kv_heads, 1)})
                .abs()
                .max()
                .item<double>(),
            150);
  for (at::Tensor* x : {&q, &k, &v}) x->set_requires_grad(true);
  const at::Tensor expected = reference(q, k, v, c.ends, scale, c.window);
  const at::Tensor seed = at::randn(expected.sizes(), options);
  const auto grads = torch::autograd::grad({expected}, {q, k, v}, {seed});

  const at::NoGradGuard no_grad;
  const auto pieces = split_row(s, c.ends, c.cp, c.balance);
  const auto part = [](const at::Tensor& x, const Pieces& of) {
    std::vector<at::Tensor> parts;
    for (const Range& piece : of) parts.push_back(x.narrow(0, piece.begin, piece.size()));
    return at::cat(parts).unsqueeze(0).contiguous();
  };
  at::Tensor dk = at::zeros_like(k), dv = at::zeros_like(v);
  int64_t pairs = 0;
  for (const Pieces& mine : pieces) {
    const at::Tensor my_q = part(q, mine);
    const AttentionScores scores{.scale = scale, .window = c.window, .sinks = {}};
    BlockAttention attention(my_q, size, scores);
    std::vector<std::pair<const Pieces*, std::vector<VisibleBlock>>> plan;
    plan.emplace_back(&mine, plan_blocks(mine, mine, c.ends, -1, c.window));
    for (const Pieces& other : pieces) {
      if (&other != &mine)
        plan.emplace_back(&other, plan_blocks(mine, other, c.ends, -1, c.window));
    }
    for (const auto& [of, blocks] : plan) {
      attention.attend(part(k, *of), part(v, *of), blocks);
      pairs += visible_pairs(blocks, c.window);
    }
    EXPECT_LE((attention.out() - part(expected, mine)).abs().max().item<double>(), 1e-12);
    at::Tensor dq = at::zeros_like(my_q);
    for (const auto& [of, blocks] : plan) {
      at::Tensor part_dk = at::zeros_like(part(k, *of)), part_dv = at::zeros_like(part_dk);
      const at::Tensor grad_out = part(seed, mine), keys = part(k, *of), values = part(v, *of);
      attend_backward({grad_out, my_q, keys, values, attention.out(), attention.lse(), scores},
                      keys, values, blocks, dq, part_dk, part_dv);
      int64_t at = 0;
      for (const Range& piece : *of) {
        dk.narrow(0, piece.begin, piece.size()).add_(part_dk[0].narrow(0, at, piece.size()));
        dv.narrow(0, piece.begin, piece.size()).add_(part_dv[0].narrow(0, at, piece.size()));
        at += piece.size();
      }
    }
    EXPECT_LE((dq - part(grads[0], mine)).abs().max().item<double>(), allowed(grads[0]));
  }
  EXPECT_LE((dk - grads[1]).abs().max().item<double>(), allowed(grads[1]));
  EXPECT_LE((dv - grads[2]).abs().max().item<double>(), allowed(grads[2]));

  // Only what is visible is computed.
  int64_t visible = 0, begin = 0;
  for (const int64_t end : c.ends) {
    for (int64_t i = 1; i <= end - begin; ++i) visible += c.window > 0 ? std::min(i, c.window) : i;
    begin = end;
  }
  EXPECT_EQ(pairs, visible);
}

INSTANTIATE_TEST_SUITE_P(
    Splits, Blocks,
    testing::Values(Case{"causal_contiguous", 4, TokenBalance::kContiguous, {64}, 4},
                    Case{"causal_head_tail", 4, TokenBalance::kHeadTail, {64}, 2},
                    Case{"one_kv_head", 2, TokenBalance::kHeadTail, {32}, 1},
                    Case{"documents", 4, TokenBalance::kHeadTail, {3, 4, 30, 63, 64}, 2},
                    Case{"documents_by_work", 4, TokenBalance::kByWork, {1, 2, 40, 41, 64}, 4},
                    Case{"document_in_one_slice", 2, TokenBalance::kContiguous, {20, 30, 64}, 4},
                    Case{"window", 4, TokenBalance::kHeadTail, {64}, 2, 5},
                    Case{"window_of_documents", 4, TokenBalance::kByWork, {3, 30, 64}, 4, 20},
                    Case{"window_of_one", 2, TokenBalance::kHeadTail, {64}, 4, 1},
                    Case{
                        "all_short", 4, TokenBalance::kByWork, {8, 16, 24, 32, 40, 48, 56, 64}, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera
