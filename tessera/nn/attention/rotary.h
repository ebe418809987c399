#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// Rotates the first rotary_dim of the last dimension, pairs (i, i + rotary_dim / 2); the rest
/// passes. x [T, heads, D], cos and sin [T, rotary_dim / 2]. Values have the type of cos, sums are
/// made in at least float32; the result has the type of x.
at::Tensor apply_rotary(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin);

/// Whether the pass below does it: on the CPU, where x itself has the values' type or a narrower
/// one that is summed in it.
bool has_rotary_kernel(const at::Tensor& x_TND, const at::Tensor& cos);

/// The pass (no autograd): x rotated by direction (1 or -1) times its angles, to y, which may be x.
void rotate_into(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin,
                 int direction, const at::Tensor& y_TND);

}  // namespace tessera
