#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// sum[indices[i]] += rows[i], in the order of i whatever the number of threads. sum [E, D] and
/// rows [R, D] dense float32 or float64 of one type, indices [R] int32.
void add_rows(const at::Tensor& sum_ED, const at::Tensor& indices_R, const at::Tensor& rows_RD);

}  // namespace tessera
