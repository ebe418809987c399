#include "tessera/nn/swiglu.h"

#include <ATen/ATen.h>

namespace tessera {

at::Tensor swiglu(const at::Tensor& gate_TF, const at::Tensor& up_TF) {
  return at::silu(gate_TF) * up_TF;
}

}  // namespace tessera
