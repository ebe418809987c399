#pragma once

#include "tessera/optim/optimizer.h"

namespace tessera {

/// AdamW (Loshchilov and Hutter 2019), as torch.optim.AdamW computes it, with or without amsgrad,
/// by libtorch's fused kernel.
class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void update(const DecayGroup& group, double lr) override;
};

}  // namespace tessera
