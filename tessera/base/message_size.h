#pragma once

#include <cstdint>

namespace tessera {

/// Between processes a tensor's part from this many bytes on is a message of its own, straight from
/// and to its place; smaller ones of one operation travel packed.
inline constexpr int64_t kPieceOfItsOwn = 64 << 10;

}  // namespace tessera
