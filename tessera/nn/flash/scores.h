#pragma once

// From a tile of products to scores.

#include "tessera/nn/flash/block.h"
#include "tessera/nn/flash/micro_kernel.h"
#include "tessera/nn/flash/vector_functions.h"

namespace tessera::kernels::flash {

/// Stands for -infinity where differences are taken.
template <typename W>
constexpr W kLowest = std::numeric_limits<W>::lowest() / 16;

template <typename L, int C, typename TileOf>
TESSERA_INLINE void cap_scores(TileOf& tile, const Scores& scores) {
  const auto in = static_cast<typename L::W>(scores.scale / scores.cap);
  const auto out = static_cast<typename L::W>(scores.cap);
  for (int r = 0; r < L::kRows; ++r) {
    for (int c = 0; c < C; ++c) tile.at[r][c] = tanh_of<L>(tile.at[r][c] * in) * out;
  }
}

/// What makes a number of the scores' tile a power of 2's exponent.
TESSERA_INLINE double base2_factor(const Scores& scores) {
  return scores.cap > 0 ? kLog2E : scores.scale * kLog2E;
}

}  // namespace tessera::kernels::flash
