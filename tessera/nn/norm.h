#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/nn/parameter.h"

namespace tessera {

/// RMSNorm over the last dimension: y = x / sqrt(mean(x^2) + eps) * w, computed in at least float32
/// whatever the types of x and w are; y has the type of x.
struct Norm {
  Weight weight;  // [H], or [D] for the norm of a head
  double eps = 1e-6;
  virtual ~Norm() = default;
  virtual at::Tensor forward(const at::Tensor& x);  // [..., H] -> the same shape
};

}  // namespace tessera
