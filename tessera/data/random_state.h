#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

/// numpy's legacy RandomState(seed), as far as shuffle() goes: MT19937 and bounded integers by mask
/// and rejection. The sequence of numpy.random.RandomState(seed).shuffle(a), b, … is the same here.
class RandomState {
 public:
  /// Throws ConfigError outside 0 .. 2^32 - 1, as numpy does.
  explicit RandomState(int64_t seed) {
    if (seed < 0 || seed > 0xffffffffLL) {
      throw ConfigError(detail::concat("data seed ", seed, " is outside 0 .. 4294967295"));
    }
    generator_.seed(static_cast<uint32_t>(seed));
  }

  /// A number in 0 .. max, both included.
  uint64_t bounded(uint64_t max) {
    if (max == 0) return 0;
    const uint64_t mask = ~uint64_t{0} >> __builtin_clzll(max);
    uint64_t value;
    if (max <= 0xffffffffULL) {
      do value = generator_() & mask;
      while (value > max);
    } else {
      do value = (static_cast<uint64_t>(generator_()) << 32 | generator_()) & mask;
      while (value > max);
    }
    return value;
  }

  /// Fisher-Yates from the back. The partners do not depend on the values, so they are drawn ahead
  /// and fetched from memory while earlier swaps run.
  template <typename T>
  void shuffle(std::span<T> values) {
    constexpr uint64_t kAhead = 64;
    std::array<uint64_t, kAhead> partner;
    for (uint64_t last = values.size(); last > 1;) {  // swaps last - 1, …, 1 are to be done
      const uint64_t count = std::min(kAhead, last - 1);
      for (uint64_t k = 0; k < count; ++k) {
        partner[k] = bounded(last - 1 - k);
        __builtin_prefetch(&values[partner[k]], 1);
      }
      for (uint64_t k = 0; k < count; ++k) std::swap(values[last - 1 - k], values[partner[k]]);
      last -= count;
    }
  }

 private:
  std::mt19937 generator_;
};

}  // namespace tessera
