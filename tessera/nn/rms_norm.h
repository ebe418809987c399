#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, x [..., H], weight [H]. Types of
/// both may differ; computed in at least float32; y has the type of x, the gradient of each the
/// type of each.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace tessera
