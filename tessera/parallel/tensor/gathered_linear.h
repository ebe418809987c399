#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "tessera/comm/process_group.h"

namespace tessera {

/// The slices of a sequence that the ranks of a group hold, gathered for one or more products. The
/// gathered tensor is not kept for the backward pass: the first product whose backward needs it
/// gathers it again, behind its other product (Korthikanti et al. 2022, section 4.2.2).
class GatheredInput {
 public:
  /// x [T / size, I] of this rank.
  GatheredInput(const at::Tensor& x, const ProcessGroup& group);

  /// gathered W^T + b: [T, I] x [O, I] -> [T, O]; b may be undefined. The backward of all products
  /// together reduces the gradient of x once.
  at::Tensor linear(const at::Tensor& weight_OI, const at::Tensor& bias_O);

 private:
  struct Regathered;
  std::shared_ptr<Regathered> regathered_;
  at::Tensor gathered_;  // [T, I], in the graph
};

}  // namespace tessera
