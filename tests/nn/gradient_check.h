#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tessera {

using Differentiable = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Compares autograd's gradient of sum(weight * f(inputs)) with central differences, along each
/// element of each input (float64), and expects agreement to `tolerance` relative to the largest.
void expect_gradients_by_differences(const Differentiable& f, std::vector<at::Tensor> inputs,
                                     double tolerance = 1e-7);

/// Compares f in bfloat16 (values and gradients) with f in float64 on the same rounded inputs.
void expect_close_in_bfloat16(const Differentiable& f, const std::vector<at::Tensor>& inputs,
                              double tolerance = 2e-2);

/// Smooth, well spread values: the same on every run.
at::Tensor sample_values(const std::vector<int64_t>& shape, double phase);

}  // namespace tessera
