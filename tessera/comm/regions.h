#pragma once

// Collectives with derivatives. Each computes, on every rank, the derivative of the sum of the
// ranks' losses by its own input. T rows (tokens) over all members, member r of n holds rows
// part_of(T, n, r), dimension 0; the other dimensions are arbitrary.
//
// The backward is a collective too: all members must differentiate in the same order, and a member
// to whom no gradient arrives takes part with zeros. Not differentiable twice.
// (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", 4.2.2:
// g and g-bar.)

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/process_group.h"

namespace tessera {

/// [rows of this rank, ...] -> [rows, ...]. Backward: reduce-scatter.
at::Tensor gather_from_sp(const at::Tensor& x, int64_t rows, const ProcessGroup& group);

/// [T, ...] -> [rows of this rank, ...] of the sum over members. Backward: all-gather.
at::Tensor scatter_to_sp(const at::Tensor& x, const ProcessGroup& group);

/// The sum over members, on every member. Backward: the sum of their gradients.
at::Tensor sum_over_members(const at::Tensor& x, const ProcessGroup& group);

/// in_splits[j] rows of x go to member j; out_splits[j] rows of the result come from member j.
/// Backward: the same with the splits swapped.
at::Tensor all_to_all(const at::Tensor& x, const std::vector<int64_t>& out_splits,
                      const std::vector<int64_t>& in_splits, const ProcessGroup& group);

/// The piece of which these are made: `y` was computed from `x` outside of autograd; in the
/// backward pass `backward` turns the gradient of y into that of x. It runs with autograd switched
/// off and receives a defined, contiguous gradient of y's shape and dtype (zeros if none arrived).
/// Returns y, which may be x: then a view of it. When x needs no gradient, y is returned as it is.
at::Tensor with_backward(const at::Tensor& x, at::Tensor y,
                         std::function<at::Tensor(const at::Tensor& grad)> backward);

}  // namespace tessera
