// Values and gradients of the fused kernels: float64 against central differences, bfloat16 against
// float64, all against their plain formulas.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/nn/attention/rotary.h"
#include "tessera/nn/attention/split_heads.h"
#include "tessera/nn/kernels/gated_unit.h"
#include "tessera/nn/kernels/rms_norm.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

at::Tensor norm_of(const std::vector<at::Tensor>& in) { return rms_norm(in[0], in[1], 1e-5); }

TEST(RmsNorm, IsTheFormula) {
  for (const int64_t width : {1, 5, 16, 67}) {
    const at::Tensor x = sample_values({9, width}, 1), w = sample_values({width}, 2);
    const at::Tensor expected = x / (x * x).mean(1, true).add(1e-5).sqrt() * w;
    EXPECT_LT((rms_norm(x, w, 1e-5) - expected).abs().max().item<double>(), 1e-14);
  }
}

TEST(RmsNorm, Gradients) {
  expect_gradients_by_differences(norm_of, {sample_values({7, 19}, 1), sample_values({19}, 2)});
  expect_gradients_by_differences(norm_of, {sample_values({3, 2, 8}, 1), sample_values({8}, 2)});
  expect_close_in_bfloat16(norm_of, {sample_values({33, 64}, 1), sample_values({64}, 2)});
}

TEST(RmsNorm, TypesMayDiffer) {
  const at::Tensor x = sample_values({6, 32}, 1).to(at::kBFloat16).requires_grad_(true);
  const at::Tensor w = sample_values({32}, 2).to(at::kFloat).requires_grad_(true);
  const at::Tensor y = rms_norm(x, w, 1e-6);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  const auto gradients = torch::autograd::grad({y.sum()}, {x, w});
  EXPECT_EQ(gradients[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(gradients[1].scalar_type(), at::kFloat);
  const at::Tensor wide = x.detach().to(at::kDouble);
  const at::Tensor scaled = wide / (wide * wide).mean(1, true).add(1e-6).sqrt();
  EXPECT_LT((gradients[1] - scaled.sum(0)).abs().max().item<double>(), 1e-4);
}

TEST(RmsNorm, HeadsInsideAWiderBuffer) {
  const at::Tensor buffer = sample_values({5, 40}, 1).requires_grad_(true);
  const at::Tensor w = sample_values({8}, 2).requires_grad_(true);
  const auto heads = [](const at::Tensor& b) { return b.narrow(1, 8, 24).unflatten(1, {3, 8}); };
  const at::Tensor view = heads(buffer);
  const at::Tensor copy = heads(buffer).contiguous();
  EXPECT_TRUE(at::equal(rms_norm(view, w, 1e-5), rms_norm(copy, w, 1e-5)));
  const auto a = torch::autograd::grad({(rms_norm(view, w, 1e-5) * view).sum()}, {buffer, w});
  const auto b = torch::autograd::grad({(rms_norm(copy, w, 1e-5) * copy).sum()}, {buffer, w});
  EXPECT_LT((a[0] - b[0]).abs().max().item<double>(), 1e-14);
  EXPECT_LT((a[1] - b[1]).abs().max().item<double>(), 1e-13);
}

TEST(RmsNorm, NoTokens) {
  const at::Tensor x = at::empty({0, 8}, at::kDouble).requires_grad_(true);
  const at::Tensor w = at::ones({8}, at::kDouble).requires_grad_(true);
  const auto gradients = torch::autograd::grad({rms_norm(x, w, 1e-5).sum()}, {x, w});
  EXPECT_TRUE(at::equal(gradients[1], at::zeros({8}, at::kDouble)));
}

at::Tensor gated(const std::vector<at::Tensor>& in) {
  return gated_unit(at::cat({in[0], in[1]}, 1));
}

TEST(Swiglu, IsTheFormula) {
  const at::Tensor gate = sample_values({6, 37}, 1) * 8, up = sample_values({6, 37}, 2);
  const at::Tensor expected = gate / (1 + (-gate).exp()) * up;
  EXPECT_LT((gated({gate, up}) - expected).abs().max().item<double>(), 1e-14);
}

TEST(Swiglu, FarValuesStayFinite) {
  const at::Tensor gate = at::tensor({-1000.0, -80.0, 80.0, 1000.0}).reshape({1, 4});
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor leaf = gate.to(type).requires_grad_(true);
    const at::Tensor out = gated({leaf, at::ones_like(leaf)});
    EXPECT_TRUE(out.isfinite().all().item<bool>());
    const auto gradient = torch::autograd::grad({out.sum()}, {leaf})[0].to(at::kDouble);
    EXPECT_NEAR(gradient[0][0].item<double>(), 0, 1e-6);
    EXPECT_NEAR(gradient[0][3].item<double>(), 1, 1e-6);
  }
}

TEST(Swiglu, Gradients) {
  expect_gradients_by_differences(gated, {sample_values({5, 11}, 1), sample_values({5, 11}, 2)});
  expect_close_in_bfloat16(gated, {sample_values({17, 40}, 1), sample_values({17, 40}, 2)});
}

TEST(Swiglu, RowsOfAWiderBuffer) {
  const at::Tensor buffer = sample_values({6, 30}, 1).requires_grad_(true);
  const at::Tensor part = buffer.narrow(1, 4, 22);
  const auto a = torch::autograd::grad({gated_unit(part).sum()}, {buffer});
  const auto b = torch::autograd::grad(
      {(at::silu(part.narrow(1, 0, 11)) * part.narrow(1, 11, 11)).sum()}, {buffer});
  EXPECT_LT((a[0] - b[0]).abs().max().item<double>(), 1e-14);
}

at::Tensor rotated(const std::vector<at::Tensor>& in) {
  const int64_t half = 3;
  const at::Tensor angles = sample_values({in[0].size(0), half}, 5) * 3;
  const auto type = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return apply_rotary(in[0], angles.cos().to(type), angles.sin().to(type));
}

TEST(Rotary, RotatesPairsAndPassesTheRest) {
  const at::Tensor x = sample_values({4, 2, 9}, 1);
  const at::Tensor y = rotated({x});
  const at::Tensor angles = sample_values({4, 3}, 5) * 3;
  const at::Tensor c = angles.cos().unsqueeze(1), s = angles.sin().unsqueeze(1);
  const at::Tensor low = x.narrow(2, 0, 3), high = x.narrow(2, 3, 3);
  const at::Tensor expected =
      at::cat({low * c - high * s, high * c + low * s, x.narrow(2, 6, 3)}, 2);
  EXPECT_LT((y - expected).abs().max().item<double>(), 1e-15);
}

TEST(Rotary, Gradients) {
  expect_gradients_by_differences(rotated, {sample_values({4, 2, 6}, 1)});
  expect_gradients_by_differences(rotated, {sample_values({3, 2, 8}, 1)});
  expect_close_in_bfloat16(rotated, {sample_values({12, 4, 6}, 1)});
}

TEST(Rotary, HeadsInsideAWiderBuffer) {
  const at::Tensor buffer = sample_values({5, 40}, 1).requires_grad_(true);
  const at::Tensor view = buffer.narrow(1, 8, 24).unflatten(1, {4, 6});
  EXPECT_TRUE(at::equal(rotated({view}), rotated({view.contiguous()})));
  const auto a = torch::autograd::grad({(rotated({view}) * view).sum()}, {buffer});
  const at::Tensor copy = view.contiguous();
  const auto b = torch::autograd::grad({(rotated({copy}) * copy).sum()}, {buffer});
  EXPECT_TRUE(at::equal(a[0], b[0]));
}

// Two query heads and one of keys and values, of 6: [T, 24].
at::Tensor split_and_joined(const std::vector<at::Tensor>& in) {
  const at::Tensor angles = sample_values({in[0].size(0), 3}, 5) * 3;
  const auto type = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const bool normed = in.size() == 3;
  const auto heads = split_heads(
      in[0] * 1, {12, 6, 6}, 6, normed ? HeadNorm{in[1], 1e-5} : HeadNorm{},
      normed ? HeadNorm{in[2], 1e-6} : HeadNorm{}, angles.cos().to(type), angles.sin().to(type));
  return at::cat({heads[0], heads[1], heads[2]}, 1);
}

TEST(SplitHeads, IsSplitNormAndRotation) {
  const at::Tensor qkv = sample_values({5, 24}, 1), qw = sample_values({6}, 2),
                   kw = sample_values({6}, 3);
  const at::Tensor heads = qkv.unflatten(1, {4, 6});
  const at::Tensor q = heads.narrow(1, 0, 2), k = heads.narrow(1, 2, 1), v = heads.narrow(1, 3, 1);
  const at::Tensor plain = at::cat({rotated({q}), rotated({k}), v}, 1);
  EXPECT_TRUE(at::equal(split_and_joined({qkv}), plain));
  const at::Tensor normed =
      at::cat({rotated({rms_norm(q, qw, 1e-5)}), rotated({rms_norm(k, kw, 1e-6)}), v}, 1);
  EXPECT_TRUE(at::equal(split_and_joined({qkv, qw, kw}), normed));
}

TEST(SplitHeads, Gradients) {
  expect_gradients_by_differences(split_and_joined, {sample_values({5, 24}, 1)});
  expect_gradients_by_differences(
      split_and_joined, {sample_values({5, 24}, 1), sample_values({6}, 2), sample_values({6}, 3)});
  expect_close_in_bfloat16(split_and_joined, {sample_values({9, 24}, 1)});
  expect_close_in_bfloat16(
      split_and_joined, {sample_values({9, 24}, 1), sample_values({6}, 2), sample_values({6}, 3)});
}

TEST(SplitHeads, OnlySomeOutputsUsed) {
  const at::Tensor qkv = sample_values({5, 24}, 1).requires_grad_(true);
  const at::Tensor ones = at::ones({5, 3}, at::kDouble);
  const auto heads = split_heads(qkv * 1, {12, 6, 6}, 6, {}, {}, ones, ones);
  const auto gradient = torch::autograd::grad({heads[2].sum()}, {qkv})[0];
  EXPECT_EQ(gradient.narrow(1, 0, 18).abs().max().item<double>(), 0.0);
  EXPECT_EQ(gradient.narrow(1, 18, 6).min().item<double>(), 1.0);
}

}  // namespace
}  // namespace tessera
