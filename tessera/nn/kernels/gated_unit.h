#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/nn/kernels/kernels.h"

namespace tessera {

using kernels::GatedUnit;

/// What is between gate and up, which lie side by side: [T, 2 F] -> [T, F]; as it stands SwiGLU:
/// silu(gate) * up. Computed in at least float32; keeps its input for the backward pass, nothing
/// else.
at::Tensor gated_unit(const at::Tensor& gate_up_T2F, const GatedUnit& unit = {});

}  // namespace tessera
