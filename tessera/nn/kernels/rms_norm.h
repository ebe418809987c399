#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, x [..., H], weight [H]. Types of
/// both may differ; computed in at least float32; y has the type of x, the gradient of each the
/// type of each.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The passes behind it, for functions that are fused with it (CPU, no autograd):

/// Writes the norm of x to y and returns 1 / sqrt(mean(x^2) + eps) of every row.
at::Tensor rms_norm_into(const at::Tensor& x, const at::Tensor& weight, double eps,
                         const at::Tensor& y);
/// Writes the gradient of x to dx and returns that of the weight. Rows are summed in blocks of
/// fixed size, the blocks in float64: the same bits for any number of threads.
at::Tensor rms_norm_backward_into(const at::Tensor& dy, const at::Tensor& x,
                                  const at::Tensor& weight, const at::Tensor& inverse,
                                  const at::Tensor& dx);

}  // namespace tessera
