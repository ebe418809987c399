#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/nn/adapters.h"
#include "tessera/nn/kernels/gated_unit.h"
#include "tessera/nn/parameter.h"

namespace tessera {

/// The routed experts of a layer that are here: down_e(unit(gate_e(x), up_e(x))) over rows that lie
/// by expert; SwiGLU unless the model says otherwise. E experts here, F their width.
struct Experts {
  Weight gate_up;             // two parts, gate and up, [E, F, H] each: the value is [2 E, F, H]
  Weight down;                // [E, H, F]
  Weight gate_up_bias;        // two parts, [E, F] each, or absent
  Weight down_bias;           // [E, H], or absent
  Adapters gate_up_adapters;  // one an expert: A [E, rank, H], B [E, F, rank] for each part
  Adapters down_adapters;
  GatedUnit unit;
  /// [R, H] -> [R, H].
  at::Tensor forward(const at::Tensor& rows_RH, const std::vector<int64_t>& rows_of_expert) const;
  std::vector<Weight*> weights();
};

}  // namespace tessera
