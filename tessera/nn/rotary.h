#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// Rotates the first rotary_dim of the last dimension, pairs (i, i + rotary_dim / 2); the rest
/// passes. x [T, heads, D], cos and sin [T, rotary_dim / 2]; computed in at least float32; the
/// result has the type of x.
at::Tensor apply_rotary(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin);

/// The pass behind it (CPU, no autograd): x rotated by direction (1 or -1) times its angles, to y,
/// which may be x.
void rotate_into(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin,
                 int direction, const at::Tensor& y_TND);

}  // namespace tessera
