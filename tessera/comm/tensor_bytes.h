#pragma once

// Tensors as bytes, for transports that copy.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera {

/// Elements of one row (an index of dimension 0) of a tensor with rows.
inline int64_t row_elements(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.sizes().slice(1)) elements *= extent;
  return elements;
}

inline int64_t row_bytes(const at::Tensor& tensor) {
  return row_elements(tensor) * static_cast<int64_t>(tensor.element_size());
}

/// `to` and `from` are one or do not overlap.
inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace tessera
