#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera {

/// Tensors of several parameters that one call of libtorch's fused kernel moves.
struct AdamWTensors {
  std::vector<at::Tensor> values, grads, averages, squares, maxima, steps;

  /// `maximum`: the largest second moment so far; undefined without amsgrad. `number`: of this
  /// update, from 1.
  void add(const ShardedParam& param, const at::Tensor& average, const at::Tensor& square,
           const at::Tensor& maximum, int64_t number);
  /// All of them at once (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it).
  void update(double lr, const std::vector<double>& betas, double eps, double weight_decay);
};

/// AdamW with or without amsgrad.
class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void update(const DecayGroup& group, double lr) override;
};

}  // namespace tessera
