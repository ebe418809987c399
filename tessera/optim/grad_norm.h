#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/comm/sharded_param.h"

namespace tessera {

/// Sum of squares of all elements, added in float64 whatever the dtype, in an order that depends on
/// the element count alone.
double sum_of_squares(const at::Tensor& tensor);

/// Squares of the finished gradients that this rank counts (its primary boxes). Summed over the
/// world it is the square of the global norm, each logical element once.
double counted_squares(const ParamTable& table);

/// Factor by which gradients of global norm `norm` are multiplied: min(1, max_norm/(norm + 1e-6));
/// 1 when max_norm <= 0 (no clipping).
double clip_coefficient(double norm, double max_norm);

}  // namespace tessera
