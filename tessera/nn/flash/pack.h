#pragma once

// Copies of a block's rows in the order in which the products read them, widened.

#include "tessera/nn/flash/block.h"
#include "tessera/nn/flash/transpose.h"

namespace tessera::kernels::flash {

/// Rows [0, count) of `size` numbers, `stride` apart, to rows of `width` (a multiple of kLanes)
/// with zeros behind; zeros to row `padded`.
template <typename L, typename T>
TESSERA_INLINE void pack_rows(const T* from, int64_t stride, int64_t count, int64_t size,
                              typename L::W* to, int64_t width, int64_t padded) {
  for (int64_t i = 0; i < padded; ++i) {
    for (int64_t e = 0; e < width; e += L::kLanes) {
      const int64_t part = std::clamp<int64_t>(size - e, 0, L::kLanes);
      store_vector<L>(to + i * width + e,
                      i < count ? load_row<L>(from + i * stride + e, part) : typename L::V{});
    }
  }
}

/// Rows [0, count) of `size` numbers as columns: to[e * width + i], zeros to column `width`.
template <typename L, typename T>
TESSERA_INLINE void pack_columns(const T* from, int64_t stride, int64_t count, int64_t size,
                                 typename L::W* to, int64_t width) {
  for (int64_t i = 0; i < width; i += L::kLanes) {
    for (int64_t e = 0; e < size; e += L::kLanes) {
      const int64_t part = std::min(L::kLanes, size - e);
      typename L::V rows[L::kLanes];
#pragma GCC unroll 16
      for (int64_t j = 0; j < L::kLanes; ++j) {
        rows[j] = i + j < count ? load_row<L>(from + (i + j) * stride + e, part) : typename L::V{};
      }
      transpose<L>(rows);
      typename L::W* column = to + e * width + i;
      if (part == L::kLanes) {
#pragma GCC unroll 16
        for (int64_t j = 0; j < L::kLanes; ++j) store_vector<L>(column + j * width, rows[j]);
      } else {
        for (int64_t j = 0; j < part; ++j) store_vector<L>(column + j * width, rows[j]);
      }
    }
  }
}

/// The inverse: f(row i, element e, vector of part elements) for every row in [0, count).
template <typename L, typename F>
TESSERA_INLINE void unpack_columns(const typename L::W* from, int64_t width, int64_t count,
                                   int64_t size, const F& f) {
  for (int64_t i = 0; i < count; i += L::kLanes) {
    for (int64_t e = 0; e < size; e += L::kLanes) {
      const int64_t part = std::min(L::kLanes, size - e);
      typename L::V rows[L::kLanes];
#pragma GCC unroll 16
      for (int64_t j = 0; j < L::kLanes; ++j) {
        rows[j] = j < part ? load_vector<L>(from + (e + j) * width + i) : typename L::V{};
      }
      transpose<L>(rows);
      const int64_t valid = std::min(L::kLanes, count - i);
      for (int64_t j = 0; j < valid; ++j) f(i + j, e, rows[j], part);
    }
  }
}

}  // namespace tessera::kernels::flash
