#include "tessera/nn/norm.h"

#include <ATen/ATen.h>

#include "tessera/nn/kernels/rms_norm.h"

namespace tessera {

at::Tensor Norm::scale() const { return one_plus ? weight.value + 1 : weight.value; }

at::Tensor Norm::forward(const at::Tensor& x) { return rms_norm(x, scale(), eps); }

}  // namespace tessera
