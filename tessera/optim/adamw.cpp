#include "tessera/optim/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "tessera/nn/kernels/adamw_rows.h"

namespace tessera {
namespace {

template <typename T>
T* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

template <typename T>
void update_rows(const ShardedParam& param, const at::Tensor& average, const at::Tensor& square,
                 const at::Tensor& maximum, const AdamWSettings& s) {
  constexpr int64_t kPiece = 1 << 16;  // elements of a thread at least
  const auto number = static_cast<double>(s.number);
  kernels::AdamWFactors factors;
  factors.kept = 1.0 - s.lr * s.weight_decay;
  factors.beta1 = s.betas[0];
  factors.beta2 = s.betas[1];
  factors.step = s.lr / (1.0 - std::pow(s.betas[0], number));
  factors.root = std::sqrt(1.0 - std::pow(s.betas[1], number));
  factors.eps = s.eps;
  const at::Tensor grad = param.grad.contiguous();
  const kernels::AdamWRows<T> rows{data_of<T>(param.value), data_of<T>(grad), data_of<T>(average),
                                   data_of<T>(square), data_of<T>(maximum)};
  at::parallel_for(0, param.value.numel(), kPiece,
                   [&](int64_t begin, int64_t end) { kernels::adamw(rows, factors, begin, end); });
}

void update_on_device(const ShardedParam& param, const at::Tensor& average,
                      const at::Tensor& square, const at::Tensor& maximum, const AdamWSettings& s) {
  std::vector<at::Tensor> maxima;
  if (maximum.defined()) maxima.push_back(maximum);
  // The kernel counts from what it is given.
  const at::Tensor number =
      at::scalar_tensor(static_cast<double>(s.number), param.value.options().dtype(at::kFloat));
  at::_fused_adamw_({param.value}, {param.grad}, {average}, {square}, maxima, {number}, s.lr,
                    s.betas[0], s.betas[1], s.weight_decay, s.eps, maximum.defined(),
                    /*maximize=*/false);
}

}  // namespace

void adamw_update(const ShardedParam& param, const at::Tensor& average, const at::Tensor& square,
                  const at::Tensor& maximum, const AdamWSettings& settings) {
  if (!param.value.device().is_cpu()) {
    update_on_device(param, average, square, maximum, settings);
  } else if (param.value.scalar_type() == at::kDouble) {
    update_rows<double>(param, average, square, maximum, settings);
  } else {
    update_rows<float>(param, average, square, maximum, settings);
  }
}

void AdamW::update(const DecayGroup& group, double lr) {
  const AdamWSettings settings{lr, config().betas, config().eps, group.weight_decay, updates() + 1};
  for (const size_t i : group.params) {
    adamw_update(param(i), slot(i, 0), slot(i, 1), config().amsgrad ? slot(i, 2) : at::Tensor(),
                 settings);
  }
}

}  // namespace tessera
