#include "tessera/optim/adamw.h"

#include <ATen/ATen.h>

namespace tessera {

void AdamW::update(const DecayGroup& group, double lr) {
  std::vector<at::Tensor> values, grads, avgs, squares, maxima, steps;
  for (const size_t i : group.params) {
    values.push_back(param(i).value);
    grads.push_back(param(i).grad);
    avgs.push_back(slot(i, 0));
    squares.push_back(slot(i, 1));
    if (config().amsgrad) maxima.push_back(slot(i, 2));
    // The kernel counts from what it is given: the number of this update.
    steps.push_back(at::scalar_tensor(static_cast<double>(updates() + 1),
                                      param(i).value.options().dtype(at::kFloat)));
  }
  at::_fused_adamw_(values, grads, avgs, squares, maxima, steps, lr, config().betas[0],
                    config().betas[1], group.weight_decay, config().eps, config().amsgrad,
                    config().maximize);
}

}  // namespace tessera
