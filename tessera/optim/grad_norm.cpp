#include "tessera/optim/grad_norm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tessera {
namespace {

// Eight lanes break the dependency chain and let the compiler use vectors; blocks keep the rounding
// error of a long sum small.
template <typename T>
double squares(const T* data, int64_t count) {
  constexpr int64_t kLanes = 8, kBlock = 4096;
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    std::array<double, kLanes> lanes{};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const auto x = static_cast<double>(data[i + lane]);
        lanes[static_cast<size_t>(lane)] += x * x;
      }
    }
    double block = 0;
    for (; i < end; ++i) block += static_cast<double>(data[i]) * static_cast<double>(data[i]);
    for (const double lane : lanes) block += lane;
    sum += block;
  }
  return sum;
}

// A scalar where the tensor is, added in float64 without a copy of the tensor in it.
at::Tensor squares_there(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, std::nullopt, /*keepdim=*/false, at::kDouble).square();
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
  return squares_there(tensor).item<double>();
}

double counted_squares(const ParamTable& table) {
  double sum = 0;
  at::Tensor on_device;  // read once, at the end
  for (const auto& param : table.params()) {
    if (!param->primary || !param->grad.defined()) continue;
    if (param->grad.device().is_cpu()) {
      sum += sum_of_squares(param->grad);
    } else if (on_device.defined()) {
      on_device.add_(squares_there(param->grad));
    } else {
      on_device = squares_there(param->grad);
    }
  }
  return on_device.defined() ? sum + on_device.item<double>() : sum;
}

double clip_coefficient(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace tessera
