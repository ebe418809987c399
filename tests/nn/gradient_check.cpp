#include "tests/nn/gradient_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace tessera {

at::Tensor sample_values(const std::vector<int64_t>& shape, double phase) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const at::Tensor index = at::arange(count, at::kDouble);
  return ((index * 1.7 + phase).sin() + (index * 0.61 + 2 * phase).cos() * 0.7).reshape(shape);
}

namespace {

at::Tensor weighted_sum(const at::Tensor& out) {
  return (out * sample_values(out.sizes().vec(), 0.3).to(out.scalar_type())).sum(at::kDouble);
}

std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& input : inputs) {
    all.push_back(at::isFloatingType(input.scalar_type())
                      ? input.detach().clone().requires_grad_(true)
                      : input);
  }
  return all;
}

}  // namespace

void expect_gradients_by_differences(const Differentiable& f, std::vector<at::Tensor> inputs,
                                     double tolerance) {
  inputs = leaves(inputs);
  const auto gradients = torch::autograd::grad({weighted_sum(f(inputs))}, inputs);
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor flat = inputs[i].view(-1);
    at::Tensor numeric = at::empty({flat.numel()}, at::kDouble);
    for (int64_t j = 0; j < flat.numel(); ++j) {
      at::Tensor element = flat[j];
      const double value = element.item<double>();
      element.fill_(value + kStep);
      const double above = weighted_sum(f(inputs)).item<double>();
      element.fill_(value - kStep);
      const double below = weighted_sum(f(inputs)).item<double>();
      element.fill_(value);
      numeric[j] = (above - below) / (2 * kStep);
    }
    const double scale = std::max(1e-3, numeric.abs().max().item<double>());
    const double difference =
        (numeric - gradients[i].reshape(-1)).abs().max().item<double>() / scale;
    EXPECT_LT(difference, tolerance) << "gradient of input " << i;
  }
}

void expect_close_in_bfloat16(const Differentiable& f, const std::vector<at::Tensor>& inputs,
                              double tolerance) {
  std::vector<at::Tensor> narrow, wide;
  for (const at::Tensor& input : inputs) {
    narrow.push_back(input.to(at::kBFloat16));
    wide.push_back(narrow.back().to(at::kDouble));
  }
  narrow = leaves(narrow);
  wide = leaves(wide);
  const at::Tensor got = f(narrow);
  const at::Tensor want = f(wide);
  const auto compare = [tolerance](const at::Tensor& a, const at::Tensor& b, const char* what) {
    const double difference =
        ((a.to(at::kDouble) - b).norm() / b.norm().clamp_min(1e-12)).item<double>();
    EXPECT_LT(difference, tolerance) << what;
  };
  compare(got, want, "value");
  const auto narrow_gradients = torch::autograd::grad({weighted_sum(got)}, narrow);
  const auto wide_gradients = torch::autograd::grad({weighted_sum(want)}, wide);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(narrow_gradients[i].scalar_type(), at::kBFloat16);
    compare(narrow_gradients[i], wide_gradients[i], "gradient");
  }
}

}  // namespace tessera
