#include "tessera/storage/mxfp4.h"

#include <bit>
#include <cmath>

namespace tessera {
namespace {

constexpr float kMagnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
constexpr int kBias = 127;
constexpr uint8_t kNoNumber = 255;

}  // namespace

bool widen_mxfp4(const uint8_t* block, uint8_t scale, uint16_t* bfloat16) {
  if (scale == kNoNumber) return false;
  uint16_t values[16];  // of every code under this scale
  for (unsigned code = 0; code < 8; ++code) {
    const float value = std::ldexp(kMagnitudes[code], scale - kBias);
    if (!std::isfinite(value)) {
      // Only wrong when a number of the block has this code.
      values[code] = values[code + 8] = UINT16_MAX;
      continue;
    }
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    values[code] = bits;
    values[code + 8] = static_cast<uint16_t>(bits | 0x8000U);
  }
  bool sound = true;
  for (int64_t i = 0; i < kMxfp4BlockBytes; ++i) {
    bfloat16[2 * i] = values[block[i] & 15U];
    bfloat16[2 * i + 1] = values[block[i] >> 4U];
    sound = sound && bfloat16[2 * i] != UINT16_MAX && bfloat16[2 * i + 1] != UINT16_MAX;
  }
  return sound;
}

}  // namespace tessera
