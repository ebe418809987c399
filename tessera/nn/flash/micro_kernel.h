#pragma once

// The products of a block: every one is a sum of outer products of a few numbers and a row of
// vectors, kept in registers.

#include "tessera/nn/flash/lanes.h"

namespace tessera::kernels::flash {

/// kRows x C vectors.
template <typename L, int C>
struct Tile {
  typename L::V at[L::kRows][C];
};

/// All sums are zero.
template <typename L, int C>
TESSERA_INLINE void clear(Tile<L, C>& tile) {
#pragma GCC unroll 8
  for (int r = 0; r < L::kRows; ++r) {
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) tile.at[r][c] = typename L::V{};
  }
}

/// tile[r] += sum over k < n of a[r * row + k * step] * b[k * b_step ...]: rows r, C vectors.
template <typename L, int C>
TESSERA_INLINE void multiply_add(Tile<L, C>& tile, int64_t n, const typename L::W* a, int64_t row,
                                 int64_t step, const typename L::W* b, int64_t b_step) {
  for (int64_t k = 0; k < n; ++k) {
    typename L::V x[C];
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) x[c] = load_vector<L>(b + c * L::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < L::kRows; ++r) {
      const typename L::V y = all_lanes<L>(a[r * row]);
#pragma GCC unroll 3
      for (int c = 0; c < C; ++c) tile.at[r][c] += y * x[c];
    }
    a += step;
    b += b_step;
  }
}

/// Of a tile's rows in memory, `stride` elements apart: read, and written back.
template <typename L, int C>
TESSERA_INLINE void load_tile(Tile<L, C>& tile, const typename L::W* from, int64_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < L::kRows; ++r) {
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) tile.at[r][c] = load_vector<L>(from + r * stride + c * L::kLanes);
  }
}
template <typename L, int C>
TESSERA_INLINE void store_tile(const Tile<L, C>& tile, typename L::W* to, int64_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < L::kRows; ++r) {
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) store_vector<L>(to + r * stride + c * L::kLanes, tile.at[r][c]);
  }
}

/// The same for the first `rows` rows, whose last vector ends after `last` elements.
template <typename L, int C>
TESSERA_INLINE void load_edge(Tile<L, C>& tile, const typename L::W* from, int64_t stride,
                              int64_t rows, int64_t last) {
  clear<L, C>(tile);
#pragma GCC unroll 8
  for (int r = 0; r < L::kRows; ++r) {
    if (r >= rows) break;
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) {
      tile.at[r][c] = load_row<L>(from + r * stride + c * L::kLanes, c + 1 < C ? L::kLanes : last);
    }
  }
}
template <typename L, int C>
TESSERA_INLINE void store_edge(const Tile<L, C>& tile, typename L::W* to, int64_t stride,
                               int64_t rows, int64_t last) {
#pragma GCC unroll 8
  for (int r = 0; r < L::kRows; ++r) {
    if (r >= rows) break;
#pragma GCC unroll 3
    for (int c = 0; c < C; ++c) {
      store_row<L>(to + r * stride + c * L::kLanes, tile.at[r][c], c + 1 < C ? L::kLanes : last);
    }
  }
}

}  // namespace tessera::kernels::flash
