#pragma once

// Work space of one thread: arrays one after the other, each at a multiple of 64 bytes.

#include <cstddef>
#include <cstdint>

#include "tessera/nn/flash/problem.h"

namespace tessera::kernels::flash {

class Room {
 public:
  /// Without memory it only counts.
  explicit Room(std::byte* memory) : memory_(memory) {}

  template <typename W>
  W* take(int64_t elements) {
    std::byte* const at = memory_ ? memory_ + used_ : nullptr;
    used_ += (elements * static_cast<int64_t>(sizeof(W)) + 63) / 64 * 64;
    return reinterpret_cast<W*>(at);
  }
  int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  int64_t used_ = 0;
};

/// Bytes of the arrays that an Arrays takes.
template <typename Arrays>
int64_t room_bytes(const Sizes& sizes) {
  Room room(nullptr);
  Arrays arrays(sizes, room);
  return room.used();
}

}  // namespace tessera::kernels::flash
