#include "tessera/nn/norm.h"

#include "tessera/nn/kernels/rms_norm.h"

namespace tessera {

at::Tensor Norm::forward(const at::Tensor& x) { return rms_norm(x, weight.value, eps); }

}  // namespace tessera
