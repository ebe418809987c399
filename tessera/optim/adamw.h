#pragma once

#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera {

/// What AdamW computes with.
struct AdamWSettings {
  double lr = 0.0;
  std::vector<double> betas;
  double eps = 0.0;
  double weight_decay = 0.0;
  int64_t number = 1;  // of this update, for the correction of the moments' bias
};

/// One update of a parameter in place (kernels/adamw_rows.h; on a device libtorch's fused kernel).
/// `maximum`: the largest second moment so far; undefined without amsgrad.
void adamw_update(const ShardedParam& param, const at::Tensor& average, const at::Tensor& square,
                  const at::Tensor& maximum, const AdamWSettings& settings);

/// AdamW with or without amsgrad.
class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void update(const DecayGroup& group, double lr) override;
};

}  // namespace tessera
