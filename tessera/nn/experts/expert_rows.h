#pragma once

// Rows of tokens in the order of their experts, there and back. A token with k choices has k copies
// among the rows. T tokens, k choices, R rows, W width.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/box.h"

namespace tessera {

/// Which rows there are: one per (token, choice), by expert, then token, then choice.
struct ExpertOrder {
  at::Tensor source;            // [R] int64: the token of every row
  at::Tensor places;            // [T, k] int64: the row of every choice; -1: not among these rows
  std::vector<int64_t> counts;  // rows of each expert of the range
};

/// Rows of the choices that fall into `experts`; the others are left out. expert_ids [T, k] int64.
/// The tensors lie where expert_ids lies.
ExpertOrder order_by_expert(const at::Tensor& expert_ids, const Range& experts);

/// Copies of the rows of x: [T, W] -> [R, W], row r is x[source[r]]. `places` [T, m] says where the
/// copies of each row of x are (-1: none); the backward pass sums them in that order.
at::Tensor spread_rows(const at::Tensor& x_TW, const at::Tensor& source, const at::Tensor& places);

/// [R, W] -> [T, W], row t is the sum over m of weights[t, m] x rows[places[t, m]] (-1: nothing).
/// Every row is in one place. `weights` [T, m] may be undefined: ones. Summed in float32 or wider.
at::Tensor combine_rows(const at::Tensor& rows_RW, const at::Tensor& places,
                        const at::Tensor& weights);

}  // namespace tessera
