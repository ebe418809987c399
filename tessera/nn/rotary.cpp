#include <ATen/ATen.h>

#include "tessera/nn/rope.h"

namespace tessera {

at::Tensor apply_rotary(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = cos.size(1);
  const at::Tensor wide = x_TND.to(cos.scalar_type());
  const at::Tensor c = cos.unsqueeze(1);
  const at::Tensor s = sin.unsqueeze(1);
  const at::Tensor low = wide.narrow(2, 0, half);
  const at::Tensor high = wide.narrow(2, half, half);
  std::vector<at::Tensor> pieces{low * c - high * s, high * c + low * s};
  const int64_t rest = x_TND.size(2) - 2 * half;
  if (rest > 0) pieces.push_back(wide.narrow(2, 2 * half, rest));
  return at::cat(pieces, 2).to(x_TND.scalar_type());
}

}  // namespace tessera
