#pragma once

// How tokens get to their experts and back. T tokens with k choices of X experts; R rows at the
// experts of this rank.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tessera {

/// One use: there, then back. Whatever autograd must see crosses in tensors.
struct DispatchCall {
  virtual ~DispatchCall() = default;
  at::Tensor rows;                      // [R, H], one per (token, choice), by expert
  at::Tensor weights;                   // of the choices, as combine() wants them back
  std::vector<int64_t> rows_of_expert;  // of each expert that this rank holds
  /// [R, H] of the experts and `weights` -> [T, H]: the weighted sum over the choices.
  virtual at::Tensor combine(const at::Tensor& rows_RH, const at::Tensor& weights) = 0;
};

/// Every token reaches all its experts, none is dropped. The plain one holds all experts.
struct TokenDispatcher {
  virtual ~TokenDispatcher() = default;
  /// x [T, H], expert_ids [T, k] int64, weights [T, k] or undefined (ones).
  virtual std::unique_ptr<DispatchCall> dispatch(const at::Tensor& x_TH,
                                                 const at::Tensor& expert_ids,
                                                 const at::Tensor& weights, int64_t experts);
};

}  // namespace tessera
