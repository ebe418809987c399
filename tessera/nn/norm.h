#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/nn/parameter.h"

namespace tessera {

/// RMSNorm over the last dimension: y = x / sqrt(mean(x^2) + eps) * scale, computed in at least
/// float32 whatever the types of x and the scale are; y has the type of x.
struct Norm {
  Weight weight;  // [H], or [D] for the norm of a head
  double eps = 1e-6;
  bool one_plus = false;  // the scale is 1 + weight, not weight
  virtual ~Norm() = default;
  virtual at::Tensor forward(const at::Tensor& x);  // [..., H] -> the same shape
  at::Tensor scale() const;                         // [H], differentiable
};

}  // namespace tessera
