#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tessera {

/// A product per group of rows: rows of group e, x_e [n_e, I], give x_e W_e^T. `weight` holds the
/// matrices of `parts` projections over the same rows, [parts x E, O, I], all groups of the first,
/// then of the second; their results lie side by side: [R, I] -> [R, parts x O]. Groups may be
/// empty; their rows lie one after the other, `rows_of_group` [E] of each.
at::Tensor grouped_linear(const at::Tensor& x_RI, const at::Tensor& weight,
                          const std::vector<int64_t>& rows_of_group, int64_t parts = 1);

/// The same by libtorch's grouped product, for devices where that is one kernel: float32 and
/// bfloat16, rows of 16 bytes.
bool has_grouped_product(const at::Tensor& x_RI, const at::Tensor& weight);
at::Tensor grouped_linear_by_kernel(const at::Tensor& x_RI, const at::Tensor& weight,
                                    const std::vector<int64_t>& rows_of_group, int64_t parts);

}  // namespace tessera
