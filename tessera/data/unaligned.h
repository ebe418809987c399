#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera {

/// Element `index` of an array of T that begins at `base`, whatever its alignment (the arrays of an
/// .idx begin at byte 34).
template <typename T>
T load_unaligned(const std::byte* base, int64_t index) {
  T value;
  std::memcpy(&value, base + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

}  // namespace tessera
