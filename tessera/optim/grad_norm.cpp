#include "tessera/optim/grad_norm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

namespace tessera {
namespace {

// Eight lanes break the dependency chain and let the compiler use vectors.
template <typename T>
double squares(const T* data, int64_t count) {
  std::array<double, 8> lanes{};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) {
      const auto x = static_cast<double>(data[i + static_cast<int64_t>(lane)]);
      lanes[lane] += x * x;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(data[i]) * static_cast<double>(data[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double sum_of_squares(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  if (tensor.device().is_cpu() && tensor.is_contiguous()) {
    if (tensor.scalar_type() == at::kFloat) {
      return squares(tensor.const_data_ptr<float>(), tensor.numel());
    }
    if (tensor.scalar_type() == at::kDouble) {
      return squares(tensor.const_data_ptr<double>(), tensor.numel());
    }
  }
  return tensor.to(at::kDouble).square().sum().item<double>();
}

double counted_squares(const ParamTable& table) {
  double sum = 0;
  for (const auto& param : table.params()) {
    if (param->primary && param->grad.defined()) sum += sum_of_squares(param->grad);
  }
  return sum;
}

double clip_coefficient(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace tessera
