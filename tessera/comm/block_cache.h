#pragma once

// Large blocks of host memory that are kept for the next who asks: freshly mapped pages (a fault
// and a zeroing each) cost most of the system time of a training step on CPUs.

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

namespace tessera {

class BlockCache {
 public:
  static constexpr size_t kAlignment = 64;
  /// Blocks below this are malloc's affair.
  static constexpr size_t kSmallest = 32 << 10;

  /// `bytes` rounded up to the size a block for them really has: eight sizes per power of two.
  static size_t rounded(size_t bytes);

  /// A block of rounded(bytes), for bytes >= kSmallest; its content is arbitrary. nullptr if there
  /// is no memory.
  void* take(size_t bytes);
  /// Gives back a block of rounded(bytes).
  void give(void* block, size_t bytes);
  /// Gives all kept blocks to the system.
  void release();

  size_t kept_bytes() const { return kept_.load(); }

 private:
  static constexpr size_t kClasses = 8 * 40;
  struct Class {
    std::mutex mutex;
    std::vector<void*> blocks;
  };

  static size_t class_of(size_t bytes);
  static size_t size_of_class(size_t index);
  void* pop(size_t index);
  void make_room();

  std::array<Class, kClasses> classes_;
  std::atomic<size_t> kept_{0};
  std::atomic<size_t> used_{0};
  std::atomic<size_t> most_used_{0};
};

}  // namespace tessera
