#pragma once

#include <c10/core/ScalarType.h>

#include "tessera/base/dtype.h"

namespace tessera {

/// libtorch's name of a configured type.
inline at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return at::kFloat;
    case DType::kBFloat16: return at::kBFloat16;
    case DType::kFloat64: return at::kDouble;
    case DType::kFloat16: return at::kHalf;
  }
  return at::kFloat;
}

/// The type in which sums and transcendental functions of `type` are computed: float64 for float64,
/// float32 for everything narrower.
inline at::ScalarType accumulation_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace tessera
