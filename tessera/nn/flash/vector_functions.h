#pragma once

// Functions of vectors, to about one unit in the last place. What is no number stays none.

#include "tessera/nn/flash/lanes.h"

namespace tessera::kernels::flash {

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.693147180559945309417;

/// c[0] x^(N-1) + ... + c[N-1].
template <typename L, int N>
TESSERA_INLINE typename L::V polynomial(typename L::V x, const double (&c)[N]) {
  using W = typename L::W;
  typename L::V p = all_lanes<L>(static_cast<W>(c[0]));
#pragma GCC unroll 16
  for (int i = 1; i < N; ++i) p = p * x + static_cast<W>(c[i]);
  return p;
}

/// Polynomials: Chebyshev's through the zeros of the next degree.
template <typename W>
struct Series;
template <>
struct Series<float> {
  static constexpr int kMantissa = 23;
  static constexpr double kBias = 127;
  static constexpr double kRound = 12582912.0;  // 1.5 * 2^23: adding it rounds to an integer
  // (2^r - 1) / r on [-0.5, 0.5]
  static constexpr double kExp2[] = {1.5453162945120690e-4, 1.3390863364671234e-3,
                                     9.6180825572778515e-3, 5.5503571142190778e-2,
                                     2.4022650760568127e-1, 6.9314718802622879e-1};
  // (e^r - 1 - r) / r^2 on [-0.35, 0.35]
  static constexpr double kExpm1[] = {1.3926918055947982e-3, 8.3637670232870370e-3,
                                      4.1666550162720301e-2, 1.6666573423859741e-1, 0.5};
  static constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;
};
template <>
struct Series<double> {
  static constexpr int kMantissa = 52;
  static constexpr double kBias = 1023;
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kExp2[] = {
      4.4549605981865184e-10, 7.0725859492692237e-9, 1.0178062445845774e-7, 1.3215442587921690e-6,
      1.5252733829836118e-5,  1.5403530441736050e-4, 1.3333558146416935e-3, 9.6181291076068885e-3,
      5.5504108664821594e-2,  2.4022650695910098e-1, 6.9314718055994531e-1};
  static constexpr double kExpm1[] = {2.0915433598076005e-9,
                                      2.5106262550879079e-8,
                                      2.7557271831536130e-7,
                                      2.7557252863367320e-6,
                                      2.4801587326990049e-5,
                                      1.9841269876840356e-4,
                                      1.3888888888883332e-3,
                                      8.3333333333255517e-3,
                                      4.1666666666666670e-2,
                                      1.6666666666666671e-1,
                                      0.5};
  static constexpr double kLn2High = 6.93147180369123816490e-01;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
};

/// 2^x for x up to the largest exponent; exactly 0 below 2^-127 (double: 2^-1023).
template <typename L>
TESSERA_INLINE typename L::V exp2_of(typename L::V x) {
  using S = Series<typename L::W>;
  using W = typename L::W;
  constexpr W kShift = static_cast<W>(S::kRound + S::kBias);
  x = larger<L>(all_lanes<L>(static_cast<W>(-S::kBias)), x);
  const typename L::V shifted = x + kShift;
  // The low bits of `shifted` are the biased exponent.
  const auto power = (typename L::V)((typename L::I)shifted << S::kMantissa);
  const typename L::V r = x - (shifted - kShift);
  return (polynomial<L>(r, S::kExp2) * r + W{1}) * power;
}

/// ln x for normal x > 0 (the method of fdlibm's log).
template <typename L>
TESSERA_INLINE typename L::V log_of(typename L::V x) {
  using S = Series<typename L::W>;
  using W = typename L::W;
  using Int = typename L::Int;
  constexpr Int kOne = static_cast<Int>(S::kBias) << S::kMantissa;
  constexpr Int kHalfRoot = sizeof(W) == 4
                                ? static_cast<Int>(0x3f3504f3)           // sqrt(1/2)
                                : static_cast<Int>(0x3fe6a09e667f3bcd);  // the same in double
  const auto bits = (typename L::I)x;
  const typename L::I exponent = (bits - kHalfRoot) >> S::kMantissa;
  const auto mantissa = (typename L::V)(bits - (exponent << S::kMantissa));
  static_assert(kOne > kHalfRoot);
  const typename L::V n = __builtin_convertvector(exponent, typename L::V);
  const typename L::V f = mantissa - W{1};
  const typename L::V s = f / (f + W{2});
  const typename L::V z = s * s;
  constexpr double kSeries[] = {1.479819860511658591e-01, 1.531383769920937332e-01,
                                1.818357216161805012e-01, 2.222219843214978396e-01,
                                2.857142874366239149e-01, 3.999999999940941908e-01,
                                6.666666666666735130e-01};
  const typename L::V half = W{0.5} * f * f;
  const typename L::V tail = s * (half + polynomial<L>(z, kSeries) * z);
  return n * static_cast<W>(S::kLn2High) - ((half - (tail + n * static_cast<W>(S::kLn2Low))) - f);
}

/// tanh x = m / (m + 2) with m = e^(2x) - 1.
template <typename L>
TESSERA_INLINE typename L::V tanh_of(typename L::V x) {
  using S = Series<typename L::W>;
  using W = typename L::W;
  constexpr W kLimit = 20;  // tanh is 1 or -1 to the last place
  typename L::V y = x > kLimit ? all_lanes<L>(kLimit) : x;
  y = y < -kLimit ? all_lanes<L>(-kLimit) : y;
  y = y + y;
  constexpr W kShift = static_cast<W>(S::kRound + S::kBias);
  const typename L::V shifted = y * static_cast<W>(kLog2E) + kShift;
  const auto power = (typename L::V)((typename L::I)shifted << S::kMantissa);
  const typename L::V n = shifted - kShift;
  const typename L::V r = (y - n * static_cast<W>(S::kLn2High)) - n * static_cast<W>(S::kLn2Low);
  const typename L::V small = polynomial<L>(r, S::kExpm1) * (r * r) + r;  // e^r - 1
  const typename L::V m = small * power + (power - W{1});
  return m / (m + W{2});
}

}  // namespace tessera::kernels::flash
