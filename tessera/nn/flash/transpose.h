#pragma once

// Squares of kLanes x kLanes numbers turned in registers.

#include <utility>

#include "tessera/nn/flash/lanes.h"

namespace tessera::kernels::flash {

namespace detail {

// Elements of the low (high) halves of a and b in turns.
template <typename L, bool kHigh, int... I>
TESSERA_INLINE typename L::V interleave(typename L::V a, typename L::V b,
                                        std::integer_sequence<int, I...>) {
  constexpr int kLanes = static_cast<int>(L::kLanes);
  return __builtin_shufflevector(a, b, (I % 2 * kLanes + I / 2 + (kHigh ? kLanes / 2 : 0))...);
}

}  // namespace detail

/// rows[i][j] becomes rows[j][i]: log2(kLanes) rounds in which row i meets row i + kLanes / 2.
template <typename L>
TESSERA_INLINE void transpose(typename L::V (&rows)[L::kLanes]) {
  constexpr int kLanes = static_cast<int>(L::kLanes);
  using Order = std::make_integer_sequence<int, kLanes>;
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    typename L::V next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = detail::interleave<L, false>(rows[i], rows[i + kLanes / 2], Order{});
      next[2 * i + 1] = detail::interleave<L, true>(rows[i], rows[i + kLanes / 2], Order{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

}  // namespace tessera::kernels::flash
