#pragma once

// Products of bfloat16 matrices on processors without bfloat16 units, where libtorch's own are ten
// to forty times slower than its float32 ones.

#include <ATen/core/Tensor.h>

namespace tessera {

/// out = a b, or out += a b where `add`: [M, K], [K, N] -> [M, N], all bfloat16 in host memory,
/// views of any strides; `out` overlaps neither factor. Blocks are widened to float32, multiplied
/// and summed there; an element of the result is rounded once, after `out` has been added. Besides
/// the tensors it takes at most 1.25 MiB for each thread. Not differentiable.
void widened_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add);

}  // namespace tessera
