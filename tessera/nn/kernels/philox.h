#pragma once

// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a function of
// (key, counter), so every value can be had by itself, in any order, on any rank. No torch here.

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

using PhiloxCounter = std::array<uint32_t, 4>;

/// The four words of one counter.
std::array<uint32_t, 4> philox(uint64_t key, const PhiloxCounter& counter);

/// A key out of a seed and a name (or further numbers): mixes all bits of both.
uint64_t philox_key(uint64_t seed, std::string_view name);
uint64_t philox_key(uint64_t seed, uint64_t number);

/// out[i] = standard normal number `begin + i` of the sequence of `key`, for i < count: four
/// numbers per counter, Box-Muller in float64 with logarithm, sine and cosine of our own in plain
/// operations that round alike everywhere. The value of a number does not depend on begin, on count
/// or on the machine.
void philox_normal(uint64_t key, uint64_t begin, int64_t count, double* out);

/// out[i] = word `begin + i` of the sequence of `key` whose counters end in (high, middle).
void philox_words(uint64_t key, uint32_t middle, uint64_t high, uint32_t begin, int64_t count,
                  uint32_t* out);

}  // namespace tessera
