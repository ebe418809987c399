#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// silu(gate) * up, elementwise, both [T, F] (rows may be strided: parts of one buffer); computed
/// in at least float32.
at::Tensor swiglu(const at::Tensor& gate_TF, const at::Tensor& up_TF);

}  // namespace tessera
