#pragma once

// The three matrix products of y = x W^T. N and T as in BLAS: as it lies, transposed.

#include <ATen/core/Tensor.h>

namespace tessera {

/// Whether products of x's kind go in float32: bfloat16 in host memory of a processor without
/// bfloat16 units.
bool is_widened(const at::Tensor& x);

/// out = a b, or out += a b where `add`: [M, K], [K, N] -> [M, N], views of any strides. What
/// is_widened() is multiplied in float32 and rounded once. Not differentiable.
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add);

/// x W^T: [T, I], [O, I] -> [T, O]. Not differentiable.
at::Tensor product_nt(const at::Tensor& x_TI, const at::Tensor& weight_OI);

/// dy W, the gradient of x: [T, O], [O, I] -> [T, I]. Not differentiable.
at::Tensor product_nn(const at::Tensor& dy_TO, const at::Tensor& weight_OI);

/// Whether whoever owns the weights sums this leaf's gradients over micro-batches in `grad()`. A
/// backward then adds there and hands out nothing, which saves a buffer and a pass over it.
bool sums_gradient(const at::Tensor& weight, at::ScalarType type);

/// dy^T x, the gradient of W: added to weight.grad() where that sums, and undefined; else returned.
at::Tensor weight_gradient(const at::Tensor& weight_OI, const at::Tensor& dy_TO,
                           const at::Tensor& x_TI);

/// dy^T x: [T, O], [T, I] -> [O, I]. Not differentiable.
at::Tensor product_tn(const at::Tensor& dy_TO, const at::Tensor& x_TI);

/// x W^T + b with its derivatives: [T, I], [O, I], [O] or undefined -> [T, O].
at::Tensor affine(const at::Tensor& x_TI, const at::Tensor& weight_OI, const at::Tensor& bias_O);

}  // namespace tessera
