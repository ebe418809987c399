#pragma once

// The products of tensor parallelism, cut by the members whose rows they are, so that the gather
// before a column group and the reduction after a row matrix go on behind them (`enable_mc2`; Wang
// et al. 2023, "Overlap communication with dependent computation via decomposition", ASPLOS). The
// same bytes and the same sums as in one piece; products differ by rounding.
//
// n members; x is cut along its T rows (tokens), t = T / n of them here.

#include <ATen/core/Tensor.h>

#include "tessera/comm/process_group.h"

namespace tessera {

/// gathered(x) W^T + b: [t, I] x [O, I] -> [T, O]; b may be undefined. The rank's own rows are
/// multiplied while the others' arrive. The backward gathers x again.
at::Tensor overlapped_column_product(const at::Tensor& x_tI, const at::Tensor& weight_OI,
                                     const at::Tensor& bias_O, const ProcessGroup& group);

/// The rank's rows of the sum over members of x W^T: [T, I] x [O, I] -> [t, O]. What others sum is
/// multiplied first and leaves while the rest is multiplied.
at::Tensor overlapped_row_product(const at::Tensor& x_TI, const at::Tensor& weight_OI,
                                  const ProcessGroup& group);

}  // namespace tessera
