#pragma once

// Vectors of one instruction set. A set is a type, so that functions for different sets are
// different functions; each is instantiated in the one source that is compiled for its set.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tessera/nn/kernels/vector_math.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TESSERA_FLASH_X86 1
#include <immintrin.h>
#else
#define TESSERA_FLASH_X86 0
#endif

namespace tessera::kernels::flash {

/// Width of a vector, and rows of a tile of the products: a tile has up to three vectors a row, and
/// its sums stay in registers.
struct Plain {
  static constexpr int64_t kBytes = 16;
  static constexpr int64_t kRows = 4;
};
struct Avx2 {
  static constexpr int64_t kBytes = 32;
  static constexpr int64_t kRows = 4;
};
struct Avx512 {
  static constexpr int64_t kBytes = 64;
  static constexpr int64_t kRows = 8;
};

/// Vectors of W (float or double) in a set.
template <typename SetOf, typename Element>
struct Lanes {
  using Set = SetOf;
  using W = Element;
  using Int = std::conditional_t<sizeof(W) == 8, int64_t, int32_t>;
  static constexpr int64_t kLanes = Set::kBytes / static_cast<int64_t>(sizeof(W));
  static constexpr int64_t kRows = Set::kRows;

  typedef W V __attribute__((vector_size(Set::kBytes)));
  typedef Int I __attribute__((vector_size(Set::kBytes)));
  typedef W Unaligned __attribute__((vector_size(Set::kBytes), aligned(sizeof(W)), may_alias));
  typedef Int UnalignedInt __attribute__((vector_size(Set::kBytes), aligned(sizeof(W)), may_alias));

  // bfloat16 and its place in a float.
  static constexpr int64_t kFloats = Set::kBytes / 4;
  typedef uint16_t Narrow __attribute__((vector_size(kFloats * 2)));
  typedef uint16_t UnalignedNarrow __attribute__((vector_size(kFloats * 2), aligned(2), may_alias));
  typedef uint32_t Bits __attribute__((vector_size(kFloats * 4)));
};

/// The widest vector row of a tile.
constexpr int64_t kColumns = 3;

template <typename L>
TESSERA_INLINE typename L::V load_vector(const typename L::W* from) {
  return *reinterpret_cast<const typename L::Unaligned*>(from);
}
template <typename L>
TESSERA_INLINE typename L::I load_integers(const typename L::Int* from) {
  return *reinterpret_cast<const typename L::UnalignedInt*>(from);
}
template <typename L>
TESSERA_INLINE void store_vector(typename L::W* to, typename L::V x) {
  *reinterpret_cast<typename L::Unaligned*>(to) = x;
}
template <typename L>
TESSERA_INLINE typename L::V all_lanes(typename L::W x) {
  return x - typename L::V{};
}

/// The larger of two numbers; y where one of them is none.
template <typename L>
TESSERA_INLINE typename L::V larger(typename L::V x, typename L::V y) {
  using V = typename L::V;
#if TESSERA_FLASH_X86
  constexpr bool kSingle = sizeof(typename L::W) == 4;
  if constexpr (std::is_same_v<typename L::Set, Avx512> && kSingle) {
    return (V)_mm512_maskz_max_ps(0xFFFF, (__m512)x, (__m512)y);
  } else if constexpr (std::is_same_v<typename L::Set, Avx512>) {
    return (V)_mm512_maskz_max_pd(0xFF, (__m512d)x, (__m512d)y);
  } else if constexpr (std::is_same_v<typename L::Set, Avx2> && kSingle) {
    return (V)_mm256_max_ps((__m256)x, (__m256)y);
  } else if constexpr (std::is_same_v<typename L::Set, Avx2>) {
    return (V)_mm256_max_pd((__m256d)x, (__m256d)y);
  }
#endif
  return x > y ? x : y;
}

/// The first `count` elements, then zeros.
template <typename L>
TESSERA_INLINE typename L::V load_part(const typename L::W* from, int64_t count) {
#if TESSERA_FLASH_X86
  if constexpr (std::is_same_v<typename L::Set, Avx512> && sizeof(typename L::W) == 4) {
    const auto mask = static_cast<__mmask16>((1U << count) - 1);
    return (typename L::V)_mm512_maskz_loadu_ps(mask, from);
  } else if constexpr (std::is_same_v<typename L::Set, Avx512>) {
    const auto mask = static_cast<__mmask8>((1U << count) - 1);
    return (typename L::V)_mm512_maskz_loadu_pd(mask, from);
  }
#endif
  alignas(64) typename L::W values[L::kLanes] = {};
  for (int64_t i = 0; i < count; ++i) values[i] = from[i];
  return load_vector<L>(values);
}

template <typename L>
TESSERA_INLINE void store_part(typename L::W* to, typename L::V x, int64_t count) {
#if TESSERA_FLASH_X86
  if constexpr (std::is_same_v<typename L::Set, Avx512> && sizeof(typename L::W) == 4) {
    const auto mask = static_cast<__mmask16>((1U << count) - 1);
    return _mm512_mask_storeu_ps(to, mask, (__m512)x);
  } else if constexpr (std::is_same_v<typename L::Set, Avx512>) {
    const auto mask = static_cast<__mmask8>((1U << count) - 1);
    return _mm512_mask_storeu_pd(to, mask, (__m512d)x);
  }
#endif
  alignas(64) typename L::W values[L::kLanes];
  store_vector<L>(values, x);
  for (int64_t i = 0; i < count; ++i) to[i] = values[i];
}

/// `count` elements of a row in memory, widened, then zeros; count <= kLanes.
template <typename L, typename T>
TESSERA_INLINE typename L::V load_row(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (count == L::kLanes) {
      const typename L::Narrow bits = *reinterpret_cast<const typename L::UnalignedNarrow*>(from);
      return (typename L::V)(__builtin_convertvector(bits, typename L::Bits) << 16);
    }
    alignas(64) float values[L::kLanes] = {};
    for (int64_t i = 0; i < count; ++i) values[i] = load(from[i]);
    return load_vector<L>(values);
  } else {
    return count == L::kLanes ? load_vector<L>(from) : load_part<L>(from, count);
  }
}

/// The inverse: x rounded to T.
template <typename L, typename T>
TESSERA_INLINE void store_row(T* to, typename L::V x, int64_t count) {
  if constexpr (std::is_same_v<T, Bf16>) {
    alignas(64) float values[L::kLanes];
    store_vector<L>(values, x);
    for (int64_t i = 0; i < count; ++i) store(to[i], values[i]);
  } else {
    if (count == L::kLanes) return store_vector<L>(to, x);
    store_part<L>(to, x, count);
  }
}

}  // namespace tessera::kernels::flash
