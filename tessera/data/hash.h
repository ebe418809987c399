#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera {

/// 64-bit checksum of a block of memory, for finding damage and mix-ups (not attackers). Four lanes
/// of multiply and rotate, so that it keeps up with memory.
inline uint64_t checksum64(const std::byte* data, int64_t size, uint64_t seed = 0) {
  constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87ULL;
  constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FULL;
  const auto mix = [](uint64_t lane, uint64_t word) {
    lane += word * kPrime2;
    return ((lane << 31) | (lane >> 33)) * kPrime1;
  };
  uint64_t lanes[4] = {seed + 1, seed + 2, seed + 3, seed + 4};
  int64_t i = 0;
  for (; i + 32 <= size; i += 32) {
    for (int lane = 0; lane < 4; ++lane) {
      uint64_t word;
      std::memcpy(&word, data + i + 8 * lane, 8);
      lanes[lane] = mix(lanes[lane], word);
    }
  }
  for (int lane = 0; i < size; i += 8, lane = (lane + 1) % 4) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, static_cast<size_t>(size - i < 8 ? size - i : 8));
    lanes[lane] = mix(lanes[lane], word);
  }
  uint64_t hash = static_cast<uint64_t>(size) ^ seed;
  for (const uint64_t lane : lanes) hash = mix(hash, lane);
  hash = (hash ^ (hash >> 29)) * kPrime2;
  return hash ^ (hash >> 32);
}

}  // namespace tessera
