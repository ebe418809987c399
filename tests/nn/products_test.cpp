// The products of a linear layer against at::matmul, in every dtype, and where a gradient goes.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/nn/kernels/products.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(Products, AreMatrixProducts) {
  for (const auto& [type, tolerance] : {std::pair(at::kDouble, 1e-13), std::pair(at::kFloat, 1e-4),
                                        std::pair(at::kBFloat16, 0.3)}) {
    for (const int64_t tokens : {1, 7, 130}) {
      const at::Tensor x = sample_values({tokens, 67}, 1).to(type);
      const at::Tensor w = sample_values({33, 67}, 2).to(type);
      const at::Tensor y = sample_values({tokens, 33}, 3).to(type);
      EXPECT_LT(difference(product_nt(x, w), x.to(at::kDouble).mm(w.to(at::kDouble).t())),
                tolerance);
      EXPECT_LT(difference(product_nn(y, w), y.to(at::kDouble).mm(w.to(at::kDouble))), tolerance);
    }
  }
}

TEST(Products, TakeViewsAndNoTokens) {
  const at::Tensor wide = sample_values({9, 40}, 1).to(at::kFloat);
  const at::Tensor w = sample_values({8, 12}, 2).to(at::kFloat);
  const at::Tensor x = wide.narrow(1, 5, 12);
  EXPECT_LT(difference(product_nt(x, w), x.contiguous().mm(w.t())), 1e-5);
  EXPECT_EQ(product_nt(x.narrow(0, 0, 0), w).sizes(), at::IntArrayRef({0, 8}));
  EXPECT_EQ(product_nn(at::empty({0, 8}), w).sizes(), at::IntArrayRef({0, 12}));
}

at::Tensor with_bias(const std::vector<at::Tensor>& in) { return affine(in[0], in[1], in[2]); }
at::Tensor without_bias(const std::vector<at::Tensor>& in) { return affine(in[0], in[1], {}); }

TEST(Products, GradientsOfAffine) {
  const std::vector<at::Tensor> in = {sample_values({5, 6}, 1), sample_values({4, 6}, 2),
                                      sample_values({4}, 3)};
  expect_gradients_by_differences(with_bias, in);
  expect_gradients_by_differences(without_bias, {in[0], in[1]});
  expect_close_in_bfloat16(with_bias, in);
}

// Float32 goes another way than float64.
TEST(Products, GradientsInFloat32AreThoseInFloat64) {
  const std::vector<at::Tensor> wide = {sample_values({70, 48}, 1), sample_values({32, 48}, 2)};
  const auto gradients = [&](at::ScalarType type) {
    std::vector<at::Tensor> in;
    for (const at::Tensor& x : wide) in.push_back(x.to(type).requires_grad_(true));
    return torch::autograd::grad({without_bias(in).square().sum()}, in);
  };
  const auto narrow = gradients(at::kFloat), exact = gradients(at::kDouble);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_LT(difference(narrow[i], exact[i]) / exact[i].abs().max().item<double>(), 1e-5);
  }
}

TEST(Products, AGradientIsAddedWhereItsOwnerSums) {
  const at::Tensor x = sample_values({5, 6}, 1);
  const at::Tensor w = sample_values({4, 6}, 2).requires_grad_(true);
  const at::Tensor alone = torch::autograd::grad({affine(x, w, {}).sum()}, {w})[0];
  at::Tensor sum = at::ones({4, 6}, at::kDouble);
  w.mutable_grad() = sum;
  const auto handed_out =
      torch::autograd::grad({affine(x, w, {}).sum()}, {w}, {}, std::nullopt, false, true);
  EXPECT_FALSE(handed_out[0].defined());
  EXPECT_LT(difference(sum, alone + 1), 1e-14);
  // A sum of another type is the owner's to make.
  w.mutable_grad() = sum.to(at::kFloat);
  EXPECT_TRUE(torch::autograd::grad({affine(x, w, {}).sum()}, {w})[0].defined());
}

}  // namespace
}  // namespace tessera
