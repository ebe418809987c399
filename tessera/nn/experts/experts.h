#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// The routed experts of a layer that are here: down_e(silu(gate_e(x)) * up_e(x)) over rows that
/// lie by expert. E experts here, F their width.
struct Experts {
  Weight gate_up;  // two parts, gate and up, [E, F, H] each: the value is [2 E, F, H]
  Weight down;     // [E, H, F]
  /// [R, H] -> [R, H].
  at::Tensor forward(const at::Tensor& rows_RH, const std::vector<int64_t>& rows_of_expert) const;
};

}  // namespace tessera
