#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/config/config.h"

namespace tessera {

/// The type in which matrices of `x`'s kind are iterated: float64 in float64; else bfloat16 where
/// the device, or this processor, has units for it, else float32.
at::ScalarType newton_schulz_type(const at::Tensor& x);

/// x [rows, columns], contiguous, becomes nearly orthogonal, in place (Muon, Jordan et al. 2024;
/// Newton-Schulz of Bernstein and Newhouse 2024): X = x / max(|x|, eps), then for every step
/// X = a X + (b A + c A A) X with A = X X^T (of more rows than columns: of the transposed). The
/// norm is Frobenius'. Returns the operations of the products that it made.
double newton_schulz(const at::Tensor& x, const std::vector<NewtonSchulzTriple>& steps, double eps);

}  // namespace tessera
