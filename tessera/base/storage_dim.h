#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// The dimension along which the `parts` ranks that share out the storage of a tensor of `sizes`
/// cut it: its rows; where there are fewer matrices in a stack of them ([experts, rows, columns])
/// than ranks, the rows of every matrix, so that every rank holds some.
inline int storage_dim(const std::vector<int64_t>& sizes, int64_t parts) {
  return sizes.size() == 3 && sizes[0] < parts ? 1 : 0;
}

}  // namespace tessera
