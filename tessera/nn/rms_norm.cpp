#include "tessera/nn/rms_norm.h"

#include <ATen/ATen.h>

#include "tessera/nn/scalar_type.h"

namespace tessera {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto type = accumulation_type(at::promote_types(x.scalar_type(), weight.scalar_type()));
  const at::Tensor wide = x.to(type);
  const at::Tensor scale = wide.square().mean(-1, true).add(eps).rsqrt();
  return (wide * scale * weight.to(type)).to(x.scalar_type());
}

}  // namespace tessera
