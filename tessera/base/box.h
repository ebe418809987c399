#pragma once

// Ranges and boxes of tensors, and the one rule by which an extent is cut into parts.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera {

/// Half-open range of indices along one dimension.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// A rectangular part of a tensor.
struct Box {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : sizes) product *= size;
    return product;
  }
  bool operator==(const Box&) const = default;
};

/// Rows of the largest part when `extent` is cut into `parts`: ceil(extent / parts).
inline int64_t largest_part(int64_t extent, int64_t parts) { return (extent + parts - 1) / parts; }

/// Part `index` of `parts`: every part is largest_part() long but the last ones, which are shorter
/// or empty. The one rule by which any extent is cut anywhere in Tessera.
inline Range part_of(int64_t extent, int64_t parts, int64_t index) {
  const int64_t length = largest_part(extent, parts);
  const int64_t begin = std::min(extent, index * length);
  return {begin, std::min(extent, begin + length)};
}

}  // namespace tessera
