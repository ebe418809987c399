#pragma once

// What the CPU kernels are made of: plain loops that the compiler vectorises, for several
// instruction sets. No torch here.

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tessera/nn/kernels/instruction_sets.h"

namespace tessera::kernels {

/// bfloat16 in memory.
struct Bf16 {
  uint16_t bits;
};

/// In which T is computed.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

TESSERA_INLINE float load(float x) { return x; }
TESSERA_INLINE double load(double x) { return x; }
TESSERA_INLINE float load(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

TESSERA_INLINE void store(float& to, float x) { to = x; }
TESSERA_INLINE void store(double& to, double x) { to = x; }
TESSERA_INLINE void store(Bf16& to, float x) {  // to nearest, ties to even
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  to.bits = static_cast<uint16_t>(x != x ? 0x7FC0 : rounded);
}

/// e^x, to about one unit in the last place; arguments below -87.3 give the smallest normal number,
/// above 88.7 the largest power that fits.
TESSERA_INLINE float exp_of(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.33654f ? -87.33654f : x;
  x = x > 88.37626f ? 88.37626f : x;
  const float shifted = x * 1.44269504088896341f + kShift;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kShift);
  const float whole = shifted - kShift;
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln 2 in two parts
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  return p * std::bit_cast<float>((n + 127) << 23);
}

TESSERA_INLINE double exp_of(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  x = x < -708.0 ? -708.0 : x;
  x = x > 709.0 ? 709.0 : x;
  const double shifted = x * 1.44269504088896340736 + kShift;
  const int64_t n = std::bit_cast<int64_t>(shifted) - std::bit_cast<int64_t>(kShift);
  const double whole = shifted - kShift;
  const double r = (x - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
  double p = 1.0 / 87178291200.0;
  p = p * r + 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = (p * r) * r + r + 1.0;
  return p * std::bit_cast<double>((n + 1023) << 52);
}

}  // namespace tessera::kernels
