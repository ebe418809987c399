#include "tessera/nn/kernels/philox.h"

#include <algorithm>
#include <bit>

#include "tessera/nn/kernels/instruction_sets.h"

// The clones give the same bits: no operation here is contracted (cmake/floors.cmake) and none is
// reassociated.

namespace tessera {

namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr int kLanes = 64;  // counters worked on together

uint64_t mix(uint64_t x) {  // SplitMix64's finalizer
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// words[j][i] = word j of counter {first + i, c1, c2, c3}. `first + i` carries into c1 where the
// counter is one number of 64 bits (wide).
TESSERA_INLINE void philox_lanes(uint64_t key, uint64_t first, bool wide, uint32_t c1, uint32_t c2,
                                 uint32_t c3, uint32_t (&words)[4][kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    words[0][i] = static_cast<uint32_t>(index);
    words[1][i] = wide ? static_cast<uint32_t>(index >> 32) : c1;
    words[2][i] = c2;
    words[3][i] = c3;
  }
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t p0 = uint64_t{kMultiplier0} * words[0][i];
      const uint64_t p1 = uint64_t{kMultiplier1} * words[2][i];
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ words[1][i] ^ k0;
      const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ words[3][i] ^ k1;
      words[0][i] = n0;
      words[1][i] = static_cast<uint32_t>(p1);
      words[2][i] = n2;
      words[3][i] = static_cast<uint32_t>(p0);
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
}

// ln(x) for normal x > 0, to about one unit in the last place: x = m 2^e with m in
// [sqrt(1/2), sqrt(2)), ln(m) = 2 artanh((m - 1) / (m + 1)) by its series.
TESSERA_INLINE double log_of(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01;  // 33 bits, so that e * it is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // Moves the boundary of the exponent from 1 to sqrt(1/2).
  const uint64_t shifted = bits - 0x3FE6A09E667F3BCD;
  const auto exponent = static_cast<int32_t>(static_cast<int64_t>(shifted) >> 52);
  const double m = std::bit_cast<double>(bits - (shifted & 0xFFF0000000000000));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 1.0 / 23;
  series = series * z + 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  const double e = exponent;
  return e * kLn2High + (2.0 * s + (2.0 * s * z * series + e * kLn2Low));
}

// cos and sin of 2 pi (word + 1/2) / 2^32: the turn is cut into eighths, so that the argument of
// the Taylor polynomials stays within +-pi/4.
TESSERA_INLINE void turn(uint32_t word, double& cosine, double& sine) {
  constexpr double kStep = 6.283185307179586477 / 4294967296.0;  // 2 pi / 2^32
  const uint32_t quarter = (word + 0x20000000u) >> 30;           // nearest, modulo 4
  const auto rest = static_cast<int32_t>(word - (quarter << 30));
  const double x = (static_cast<double>(rest) + 0.5) * kStep;
  const double z = x * x;
  double s = -1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = x + x * z * s;
  double c = 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = 1.0 - 0.5 * z + z * z * c;
  const bool swap = (quarter & 1) != 0;
  const double u = swap ? s : c;
  const double v = swap ? c : s;
  cosine = quarter == 1 || quarter == 2 ? -u : u;
  sine = quarter >= 2 ? -v : v;
}

// sqrt(-2 ln u) (cos, sin) of the words (a, b), u = (a + 1/2) / 2^32.
TESSERA_INLINE double radius(uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * (1.0 / 4294967296.0);
  return -2.0 * log_of(u);
}

// 4 * kLanes normal numbers from counter `first`.
TESSERA_CLONES void normal_block(uint64_t key, uint64_t first, double* out) {
  uint32_t words[4][kLanes];
  philox_lanes(key, first, /*wide=*/true, 0, 0, 0, words);
  double squares[2][kLanes], cosines[2][kLanes], sines[2][kLanes];
  for (int pair = 0; pair < 2; ++pair) {
    for (int i = 0; i < kLanes; ++i) squares[pair][i] = radius(words[2 * pair][i]);
    for (int i = 0; i < kLanes; ++i) {
      turn(words[2 * pair + 1][i], cosines[pair][i], sines[pair][i]);
    }
    for (int i = 0; i < kLanes; ++i) {
      const double r = __builtin_sqrt(squares[pair][i]);
      out[4 * i + 2 * pair] = r * cosines[pair][i];
      out[4 * i + 2 * pair + 1] = r * sines[pair][i];
    }
  }
}

TESSERA_CLONES void word_block(uint64_t key, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3,
                               uint32_t* out) {
  uint32_t words[4][kLanes];
  philox_lanes(key, first, /*wide=*/false, c1, c2, c3, words);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < 4; ++j) out[4 * i + j] = words[j][i];
  }
}

constexpr int64_t kBlock = 4 * kLanes;

// Calls block(first counter, 4 * kLanes numbers) and hands out [begin, begin + count).
template <typename T, typename Block>
void by_blocks(uint64_t begin, int64_t count, T* out, const Block& block) {
  T buffer[kBlock];
  while (count > 0) {
    const auto skip = static_cast<int64_t>(begin % 4);
    const int64_t taken = std::min(count, kBlock - skip);
    const bool direct = taken == kBlock;
    block(begin / 4, direct ? out : buffer);
    if (!direct) std::copy_n(buffer + skip, taken, out);
    out += taken;
    begin += static_cast<uint64_t>(taken);
    count -= taken;
  }
}

}  // namespace

std::array<uint32_t, 4> philox(uint64_t key, const PhiloxCounter& counter) {
  uint32_t words[4][kLanes];
  philox_lanes(key, counter[0], /*wide=*/false, counter[1], counter[2], counter[3], words);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

uint64_t philox_key(uint64_t seed, std::string_view name) {
  uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return mix(hash ^ name.size());
}

uint64_t philox_key(uint64_t seed, uint64_t number) { return mix(mix(seed) ^ mix(~number)); }

void philox_normal(uint64_t key, uint64_t begin, int64_t count, double* out) {
  by_blocks(begin, count, out, [key](uint64_t first, double* to) { normal_block(key, first, to); });
}

void philox_words(uint64_t key, uint32_t middle, uint64_t high, uint32_t begin, int64_t count,
                  uint32_t* out) {
  const auto c2 = static_cast<uint32_t>(high);
  const auto c3 = static_cast<uint32_t>(high >> 32);
  by_blocks(begin, count, out, [&](uint64_t first, uint32_t* to) {
    word_block(key, static_cast<uint32_t>(first), middle, c2, c3, to);
  });
}

}  // namespace tessera
