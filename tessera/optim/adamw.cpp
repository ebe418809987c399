#include "tessera/optim/adamw.h"

#include <ATen/ATen.h>

namespace tessera {

void AdamWTensors::add(const ShardedParam& param, const at::Tensor& average,
                       const at::Tensor& square, const at::Tensor& maximum, int64_t number) {
  values.push_back(param.value);
  grads.push_back(param.grad);
  averages.push_back(average);
  squares.push_back(square);
  if (maximum.defined()) maxima.push_back(maximum);
  // The kernel counts from what it is given.
  steps.push_back(
      at::scalar_tensor(static_cast<double>(number), param.value.options().dtype(at::kFloat)));
}

void AdamWTensors::update(double lr, const std::vector<double>& betas, double eps,
                          double weight_decay) {
  if (values.empty()) return;
  at::_fused_adamw_(values, grads, averages, squares, maxima, steps, lr, betas[0], betas[1],
                    weight_decay, eps, /*amsgrad=*/!maxima.empty(), /*maximize=*/false);
}

void AdamW::update(const DecayGroup& group, double lr) {
  AdamWTensors tensors;
  for (const size_t i : group.params) {
    tensors.add(param(i), slot(i, 0), slot(i, 1), config().amsgrad ? slot(i, 2) : at::Tensor(),
                updates() + 1);
  }
  tensors.update(lr, config().betas, config().eps, group.weight_decay);
}

}  // namespace tessera
