#include "tessera/optim/sgd.h"

#include <ATen/ATen.h>

namespace tessera {

void Sgd::update(const DecayGroup& group, double lr) {
  for (const size_t i : group.params) {
    at::Tensor& value = param(i).value;
    const at::Tensor& grad = param(i).grad;
    at::Tensor step = group.weight_decay == 0 ? grad : grad.add(value, group.weight_decay);
    if (config().momentum != 0) step = slot(i, 0).mul_(config().momentum).add_(step);
    value.sub_(step, lr);
  }
}

}  // namespace tessera
