#pragma once

#include "tessera/optim/optimizer.h"

namespace tessera {

/// Gradient descent with momentum and weight decay, as torch.optim.SGD computes it.
class Sgd final : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void update(const DecayGroup& group, double lr) override;
};

}  // namespace tessera
