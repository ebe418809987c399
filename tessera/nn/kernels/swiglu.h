#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// silu(gate) * up, with gate and up side by side: [T, 2 F] -> [T, F]. Computed in at least
/// float32; keeps its input for the backward pass, nothing else.
at::Tensor swiglu(const at::Tensor& gate_up_T2F);

}  // namespace tessera
