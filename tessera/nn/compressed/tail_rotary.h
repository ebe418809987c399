#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// Turns the last R = 2 * cos.size(1) numbers of the last dimension; pairs are neighbours (2i, 2i +
/// 1) and stay in place. x [T, heads, D], cos and sin [T, R / 2]. direction -1 turns back. Computed
/// in at least float32; the result has the type of x.
at::Tensor rotate_tail(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin,
                       int direction = 1);

}  // namespace tessera
