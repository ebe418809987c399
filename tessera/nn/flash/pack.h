#pragma once

// Copies of a block's rows in the order in which the products read them, widened.

#include "tessera/nn/flash/block.h"
#include "tessera/nn/flash/transpose.h"

namespace tessera::kernels::flash {

/// Rows [0, count) of `size` numbers, `stride` apart, to rows of `width` (a multiple of kLanes)
/// with zeros behind; zeros to row `padded`.
template <typename L, typename T>
void pack_rows(const T* from, int64_t stride, int64_t count, int64_t size, typename L::W* to,
               int64_t width, int64_t padded) {
  const int64_t whole = size / L::kLanes * L::kLanes;
  for (int64_t i = 0; i < count; ++i, from += stride, to += width) {
    for (int64_t e = 0; e < whole; e += L::kLanes) {
      store_vector<L>(to + e, load_row<L>(from + e, L::kLanes));
    }
    for (int64_t e = whole; e < width; e += L::kLanes) {
      const int64_t part = std::max<int64_t>(0, size - e);
      store_vector<L>(to + e, load_row<L>(from + e, part));
    }
  }
  std::fill(to, to + (padded - count) * width, typename L::W{0});
}

/// Rows [0, count) of `size` numbers as columns: to[e * width + i], zeros to column `width`.
template <typename L, typename T>
void pack_columns(const T* from, int64_t stride, int64_t count, int64_t size, typename L::W* to,
                  int64_t width) {
  typename L::V rows[L::kLanes];
  for (int64_t i = 0; i < width; i += L::kLanes) {
    for (int64_t e = 0; e < size; e += L::kLanes) {
      const T* const corner = from + i * stride + e;
      typename L::W* const column = to + e * width + i;
      const int64_t part = std::min(L::kLanes, size - e);
      if (part == L::kLanes && count - i >= L::kLanes) {
#pragma GCC unroll 16
        for (int64_t j = 0; j < L::kLanes; ++j) {
          rows[j] = load_row<L>(corner + j * stride, L::kLanes);
        }
      } else {
        for (int64_t j = 0; j < L::kLanes; ++j) {
          rows[j] = i + j < count ? load_row<L>(corner + j * stride, part) : typename L::V{};
        }
      }
      transpose<L>(rows);
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
