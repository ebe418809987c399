#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tessera {

/// Norm over each head of q or k; `weight` undefined: none.
struct HeadNorm {
  at::Tensor weight;  // [D]
  double eps = 0;
};

/// The products of q, k and v side by side, [T, (N + 2 M) D], as heads: q and k normalised (both or
/// none) and rotated, {[T, N, D], [T, M, D], [T, M, D]}. One node in the graph whose backward
/// writes one gradient for all three. Takes over its input: without norms it is rotated in place.
std::array<at::Tensor, 3> split_heads(const at::Tensor& qkv, const std::vector<int64_t>& part_rows,
                                      int64_t head_dim, const HeadNorm& q_norm,
                                      const HeadNorm& k_norm, const at::Tensor& cos,
                                      const at::Tensor& sin);

}  // namespace tessera
