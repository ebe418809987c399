#include "tessera/nn/compressed/tail_rotary.h"

#include <ATen/ATen.h>

#include "tessera/nn/scalar_type.h"

namespace tessera {

at::Tensor rotate_tail(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin,
                       int direction) {
  const int64_t turned = 2 * cos.size(1);
  const int64_t rest = x_TND.size(2) - turned;
  const auto type = accumulation_type(x_TND.scalar_type());
  const at::Tensor c = cos.to(type).unsqueeze(1);
  const at::Tensor s = sin.to(type).unsqueeze(1) * direction;
  const at::Tensor pairs = x_TND.narrow(2, rest, turned).to(type).unflatten(2, {-1, 2});
  const at::Tensor even = pairs.select(3, 0), odd = pairs.select(3, 1);
  const at::Tensor tail = at::stack({even * c - odd * s, odd * c + even * s}, 3).flatten(2);
  return at::cat({x_TND.narrow(2, 0, rest), tail.to(x_TND.scalar_type())}, 2);
}

}  // namespace tessera
