#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

/// Which two neighbours may become one, in which order of preference. Open addressing: a lookup is
/// one place of memory in most cases.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = kNone;  // the lower goes first
    int32_t id = 0;        // of both together
  };
  static constexpr int32_t kNone = INT32_MAX;

  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(2 * merges + 2)) {}

  /// A pair that is there already takes the new values.
  void set(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[place_of(key_of(left, right))];
    slot.key = key_of(left, right);
    slot.merge = merge;
  }

  /// Rank kNone: they do not merge.
  Merge find(int32_t left, int32_t right) const {
    return slots_[place_of(key_of(left, right))].merge;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t place_of(uint64_t key) const {
    const uint64_t mixed = key * 0x9E3779B97F4A7C15ULL;
    size_t place = (mixed ^ mixed >> 32) & (slots_.size() - 1);
    while (slots_[place].key != key && slots_[place].key != kEmpty) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return place;
  }

  std::vector<Slot> slots_;
};

}  // namespace tessera
