#include "tessera/comm/block_cache.h"

#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <cstdlib>

namespace tessera {
namespace {

// From this size on blocks are mapped by themselves, on a boundary of huge pages, which the kernel
// is asked to use: one fault per 2 MiB.
constexpr size_t kMapped = 4 << 20;
constexpr size_t kHugePage = 2 << 20;

// Kept and used memory together stay below 5/4 of the most that was used at once, plus this.
constexpr size_t kSlack = 64 << 20;

void* allocate(size_t bytes) {
  if (bytes < kMapped) return std::aligned_alloc(BlockCache::kAlignment, bytes);
  const size_t length = bytes + kHugePage;
  void* raw = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > begin) munmap(raw, aligned - begin);
  const size_t rest = begin + length - (aligned + bytes);
  if (rest > 0) munmap(reinterpret_cast<void*>(aligned + bytes), rest);
  void* block = reinterpret_cast<void*>(aligned);
  madvise(block, bytes, MADV_HUGEPAGE);  // advice: it may fail
  return block;
}

void deallocate(void* block, size_t bytes) {
  if (bytes < kMapped) {
    std::free(block);
  } else {
    munmap(block, bytes);
  }
}

void raise(std::atomic<size_t>& most, size_t value) {
  size_t seen = most.load();
  while (seen < value && !most.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

// Class 8 k + j, j in 0 to 7, holds blocks of (8 + j) 2^(k+9) bytes; all are multiples of a page.
size_t BlockCache::class_of(size_t bytes) {
  const auto exponent =
      static_cast<size_t>(std::bit_width(bytes - 1)) - 4;  // bytes <= 16 * 2^exponent
  const size_t unit = size_t{1} << exponent;
  const size_t eighths = (bytes + unit - 1) / unit;  // 9 to 16
  return 8 * (exponent - 9) + eighths - 8;
}

size_t BlockCache::size_of_class(size_t index) { return (8 + index % 8) << (index / 8 + 9); }

size_t BlockCache::rounded(size_t bytes) { return size_of_class(class_of(bytes)); }

void* BlockCache::pop(size_t index) {
  Class& list = classes_[index];
  std::lock_guard lock(list.mutex);
  if (list.blocks.empty()) return nullptr;
  void* block = list.blocks.back();
  list.blocks.pop_back();
  kept_ -= size_of_class(index);
  return block;
}

void* BlockCache::take(size_t bytes) {
  const size_t index = class_of(bytes);
  if (index >= kClasses) return nullptr;
  const size_t size = size_of_class(index);
  raise(most_used_, used_ += size);
  void* block = pop(index);
  if (block == nullptr) {
    make_room();
    block = allocate(size);
    if (block == nullptr) {
      release();
      block = allocate(size);
    }
    if (block == nullptr) used_ -= size;
  }
  return block;
}

// Before memory is asked of the system, blocks that nobody wanted go back to it, large ones first.
void BlockCache::make_room() {
  const size_t limit = most_used_ + most_used_ / 4 + kSlack;
  for (size_t index = kClasses; index-- > 0 && kept_ + used_ > limit;) {
    while (kept_ + used_ > limit) {
      void* block = pop(index);
      if (block == nullptr) break;
      deallocate(block, size_of_class(index));
    }
  }
}

void BlockCache::give(void* block, size_t bytes) {
  const size_t index = class_of(bytes);
  Class& list = classes_[index];
  // Counted first: it may be taken as soon as it lies there.
  kept_ += size_of_class(index);
  used_ -= size_of_class(index);
  std::lock_guard lock(list.mutex);
  list.blocks.push_back(block);
}

void BlockCache::release() {
  for (size_t index = 0; index < kClasses; ++index) {
    while (void* block = pop(index)) deallocate(block, size_of_class(index));
  }
}

}  // namespace tessera
