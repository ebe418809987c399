#include "tessera/optim/newton_schulz.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "tessera/config/cpu_features.h"
#include "tessera/optim/grad_norm.h"

namespace tessera {
namespace {

double product_flops(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.size(0)) * static_cast<double>(a.size(1)) *
         static_cast<double>(b.size(1));
}

}  // namespace

at::ScalarType newton_schulz_type(const at::Tensor& x) {
  static const bool cpu_has_units = cpu_has_bfloat16();
  const bool has_units = x.device().is_cpu() ? cpu_has_units : true;
  return x.scalar_type() == at::kFloat && has_units ? at::kBFloat16 : x.scalar_type();
}

double newton_schulz(const at::Tensor& x, const std::vector<NewtonSchulzTriple>& steps,
                     double eps) {
  const double norm = std::sqrt(sum_of_squares(x));
  at::Tensor to = x;
  to.div_(std::max(norm, eps));
  at::Tensor y = x.to(newton_schulz_type(x));
  at::Tensor next = at::empty_like(y);
  const bool tall = y.size(0) > y.size(1);
  const int64_t shorter = std::min(y.size(0), y.size(1));
  at::Tensor a = at::empty({shorter, shorter}, y.options());
  at::Tensor factor = at::empty_like(a);
  double flops = 0;
  for (const NewtonSchulzTriple& step : steps) {
    const at::Tensor wide = tall ? y.t() : y;
    at::mm_out(a, wide, wide.t());
    at::addmm_out(factor, a, a, a, step.b, step.c);
    if (tall) {
      at::addmm_out(next, y, y, factor, step.a, 1.0);
    } else {
      at::addmm_out(next, y, factor, y, step.a, 1.0);
    }
    flops += product_flops(wide, wide.t()) + product_flops(a, a) + product_flops(factor, wide);
    std::swap(y, next);
  }
  if (!y.is_same(x)) to.copy_(y);
  return flops;
}

}  // namespace tessera
