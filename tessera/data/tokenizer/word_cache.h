#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

/// Ids of words that were encoded before. Its memory is bounded: a full cache is emptied. One
/// thread at a time.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 64;

  WordCache() : slots_(kSlots) {}

  static uint64_t hash_of(std::string_view word) {
    const char* data = word.data();
    size_t left = word.size();
    uint64_t hash = left * kPrime;
    for (; left >= 8; data += 8, left -= 8) {
      uint64_t eight;
      std::memcpy(&eight, data, 8);
      hash = mixed(hash ^ eight);
    }
    uint64_t rest = 0;
    if (left >= 4) {
      uint32_t first, last;
      std::memcpy(&first, data, 4);
      std::memcpy(&last, data + left - 4, 4);
      rest = static_cast<uint64_t>(first) << 32 | last;
    } else if (left > 0) {
      rest = static_cast<uint64_t>(static_cast<uint8_t>(data[0])) << 16 |
             static_cast<uint64_t>(static_cast<uint8_t>(data[left / 2])) << 8 |
             static_cast<uint8_t>(data[left - 1]);
    }
    return mixed(hash ^ rest);
  }

  /// Whether the word is there; then its ids are appended.
  bool append(std::string_view word, uint64_t hash, std::vector<int32_t>& ids) const {
    for (size_t place = hash % kSlots; slots_[place].used; place = (place + 1) % kSlots) {
      const Slot& slot = slots_[place];
      if (slot.hash != static_cast<uint32_t>(hash >> 32) || slot.word_size != word.size() ||
          std::memcmp(words_.data() + slot.word_at, word.data(), word.size()) != 0) {
        continue;
      }
      const int32_t* found = ids_.data() + slot.ids_at;
      ids.insert(ids.end(), found, found + slot.ids_size);
      return true;
    }
    return false;
  }

  /// A word that is not there yet, of at most kLongestWord bytes.
  void put(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (ids.size() > UINT8_MAX) return;
    if (count_ == kMostWords) clear();
    size_t place = hash % kSlots;
    while (slots_[place].used) place = (place + 1) % kSlots;
    slots_[place] = {static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(ids_.size()),
                     static_cast<uint32_t>(hash >> 32),    static_cast<uint16_t>(word.size()),
                     static_cast<uint8_t>(ids.size()),     true};
    words_.insert(words_.end(), word.begin(), word.end());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++count_;
  }

 private:
  static constexpr uint64_t kPrime = 0x9E3779B97F4A7C15ULL;
  static constexpr size_t kSlots = 1 << 16;
  static constexpr size_t kMostWords = kSlots / 2;

  struct Slot {
    uint32_t word_at = 0;
    uint32_t ids_at = 0;
    uint32_t hash = 0;
    uint16_t word_size = 0;
    uint8_t ids_size = 0;
    bool used = false;
  };

  static uint64_t mixed(uint64_t x) {
    x *= kPrime;
    return x ^ x >> 32;
  }

  void clear() {
    slots_.assign(kSlots, Slot{});
    words_.clear();
    ids_.clear();
    count_ = 0;
  }

  std::vector<Slot> slots_;
  std::vector<char> words_;
  std::vector<int32_t> ids_;
  size_t count_ = 0;
};

}  // namespace tessera
