#include "tessera/nn/attention/local_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "tessera/nn/attention/composed_attention.h"
#include "tessera/nn/seams.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

LayerContext context_of(std::vector<std::vector<int64_t>> ends, int64_t rows, int64_t length) {
  LayerContext context;
  context.rows = rows;
  context.seq_length = length;
  context.document_ends = std::move(ends);
  return context;
}

// The definition, with a dense mask.
at::Tensor dense_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const LayerContext& context, double scale) {
  const int64_t tokens = q.size(0);
  at::Tensor document = at::zeros({tokens}, at::kLong);
  int64_t number = 0;
  for (int64_t row = 0; row < context.rows; ++row) {
    int64_t begin = 0;
    auto ends = context.document_ends.empty() ? std::vector<int64_t>{context.seq_length}
                                              : context.document_ends[static_cast<size_t>(row)];
    for (const int64_t end : ends) {
      document.narrow(0, row * context.seq_length + begin, end - begin).fill_(number++);
      begin = end;
    }
  }
  const at::Tensor place = at::arange(tokens, at::kLong);
  const at::Tensor allowed = (document.unsqueeze(1) == document.unsqueeze(0))
                                 .logical_and(place.unsqueeze(1) >= place.unsqueeze(0));
  const int64_t repeats = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(repeats, 1).permute({1, 2, 0});
  const at::Tensor values = v.repeat_interleave(repeats, 1).transpose(0, 1);
  const at::Tensor scores = at::matmul(q.transpose(0, 1), keys) * scale;
  const at::Tensor weights = scores.masked_fill(allowed.logical_not(), -INFINITY).softmax(-1);
  return at::matmul(weights, values).transpose(0, 1);
}

void expect_equals_dense(const LayerContext& context, int64_t heads, int64_t kv_heads, int64_t size,
                         int64_t value_size, double spread = 1.0) {
  const int64_t tokens = context.rows * context.seq_length;
  std::vector<at::Tensor> in{sample_values({tokens, heads, size}, 1) * spread,
                             sample_values({tokens, kv_heads, size}, 2),
                             sample_values({tokens, kv_heads, value_size}, 3)};
  for (at::Tensor& x : in) x.requires_grad_(true);
  const at::Tensor got = local_attention(in[0], in[1], in[2], context, {.scale = 0.4, .sinks = {}});
  const at::Tensor want = dense_attention(in[0], in[1], in[2], context, 0.4);
  EXPECT_LT((got - want).abs().max().item<double>(), 1e-12);
  const at::Tensor weight = sample_values(want.sizes().vec(), 4);
  const auto got_gradients = torch::autograd::grad({(got * weight).sum()}, in);
  const auto want_gradients = torch::autograd::grad({(want * weight).sum()}, in);
  for (size_t i = 0; i < 3; ++i) {
    const double norm = want_gradients[i].norm().item<double>();
    EXPECT_LT((got_gradients[i] - want_gradients[i]).norm().item<double>(), 1e-12 * norm) << i;
  }
}

TEST(LocalAttention, WholeRows) {
  for (const int64_t kv_heads : {1, 2, 4}) {
    expect_equals_dense(context_of({}, 3, 21), 4, kv_heads, 8, 8);
  }
}

TEST(LocalAttention, PackedDocuments) {
  // One token long, equal lengths in several rows, one that fills a row, one at the very end.
  const auto context = context_of({{1, 8, 15, 16, 90}, {90}, {7, 14, 21, 90}, {45, 90}}, 4, 90);
  for (const int64_t kv_heads : {1, 2, 4}) expect_equals_dense(context, 4, kv_heads, 8, 8);
}

TEST(LocalAttention, DocumentsOfOneLengthAndEmptyOnes) {
  expect_equals_dense(context_of({{6, 12, 18}, {6, 12, 18}}, 2, 18), 4, 2, 8, 8);
  expect_equals_dense(context_of({{0, 5, 5, 18}, {18}}, 2, 18), 4, 2, 8, 8);
}

TEST(LocalAttention, ValuesOfAnotherHeadSize) {
  expect_equals_dense(context_of({}, 2, 10), 2, 2, 12, 8);
  expect_equals_dense(context_of({{3, 10}, {10}}, 2, 10), 2, 2, 8, 12);
}

TEST(LocalAttention, ScoresFarFromZero) {
  expect_equals_dense(context_of({{9, 40}}, 1, 40), 4, 2, 8, 8, 60.0);
}

// Longer than a block of the kernel.
TEST(LocalAttention, LongDocuments) {
  for (const int64_t kv_heads : {1, 4}) {
    expect_equals_dense(context_of({}, 2, 401), 4, kv_heads, 8, 8);
    expect_equals_dense(context_of({{193, 194, 579, 800}}, 1, 800), 4, kv_heads, 8, 8);
  }
  expect_equals_dense(context_of({}, 1, 300), 2, 2, 12, 8);
  expect_equals_dense(context_of({}, 1, 450), 4, 2, 8, 8, 60.0);
}

TEST(LocalAttention, LongDocumentsInBfloat16) {
  const LayerContext context = context_of({{200, 500}}, 1, 500);
  expect_close_in_bfloat16(
      [&context](const std::vector<at::Tensor>& in) {
        return local_attention(in[0], in[1], in[2], context, {.scale = 0.35, .sinks = {}});
      },
      {sample_values({500, 4, 8}, 1), sample_values({500, 2, 8}, 2),
       sample_values({500, 2, 8}, 3)});
}

TEST(LocalAttention, NoTokensAtAll) {
  at::Tensor q = at::empty({0, 4, 8}, at::kDouble).requires_grad_(true);
  at::Tensor k = at::empty({0, 2, 8}, at::kDouble).requires_grad_(true);
  at::Tensor v = at::empty({0, 2, 8}, at::kDouble).requires_grad_(true);
  for (const int64_t rows : {0, 2}) {
    const at::Tensor out =
        local_attention(q, k, v, context_of({}, rows, 0), {.scale = 1.0, .sinks = {}});
    EXPECT_EQ(out.sizes(), q.sizes());
    EXPECT_EQ(torch::autograd::grad({out.sum()}, {q, k, v})[1].numel(), 0);
  }
}

TEST(LocalAttention, Bfloat16) {
  const LayerContext context = context_of({{1, 8, 30}, {7, 14, 30}}, 2, 30);
  expect_close_in_bfloat16(
      [&context](const std::vector<at::Tensor>& in) {
        return local_attention(in[0], in[1], in[2], context, {.scale = 0.35, .sinks = {}});
      },
      {sample_values({60, 4, 8}, 1), sample_values({60, 2, 8}, 2), sample_values({60, 2, 8}, 3)});
}

TEST(LocalAttention, InputsMayComeInAnyOrder) {
  const LayerContext context = context_of({}, 1, 6);
  CoreAttention core;
  core.scale = 0.5;
  const at::Tensor q = sample_values({6, 2, 4}, 1), k = sample_values({6, 1, 4}, 2),
                   v = sample_values({6, 1, 4}, 3);
  const auto call = core.begin(context);
  call->offer(AttentionInput::kValue, v);
  call->offer(AttentionInput::kQuery, q);
  call->offer(AttentionInput::kKey, k);
  EXPECT_TRUE(
      at::equal(call->attend(), local_attention(q, k, v, context, {.scale = 0.5, .sinks = {}})));
}

// The seam hands on what it is told, and writes the largest score of each sample and head.
TEST(LocalAttention, CoreAttentionWithWindowCapAndSinks) {
  const LayerContext context = context_of({{2, 7}, {7}}, 2, 7);
  CoreAttention core;
  core.scale = 0.5;
  core.soft_cap = 1.5;
  core.window = 3;
  core.sinks.value = sample_values({4}, 5);
  const at::Tensor q = sample_values({14, 4, 4}, 1), k = sample_values({14, 2, 4}, 2),
                   v = sample_values({14, 2, 6}, 3);
  const auto call = core.begin(context);
  call->offer(AttentionInput::kValue, v);
  call->offer(AttentionInput::kQuery, q);
  call->offer(AttentionInput::kKey, k);
  const auto rows = [](const at::Tensor& x) { return x.unflatten(0, {2, 7}).transpose(1, 2); };
  at::Tensor largest, want_largest;
  const at::Tensor want = composed_attention(rows(q), rows(k), rows(v), core.scores(),
                                             context.document_ends, &want_largest)
                              .transpose(1, 2)
                              .flatten(0, 1);
  EXPECT_LT((call->attend() - want).abs().max().item<double>(), 1e-13);
  local_attention(q, k, v, context, core.scores(), &largest);
  EXPECT_EQ(largest.sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_LT((largest - want_largest).abs().max().item<double>(), 1e-13);
}

}  // namespace
}  // namespace tessera
