#include "tessera/comm/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "tessera/comm/block_cache.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera {
namespace {

TEST(Memory, CountsByRankWithPeak) {
  run_ranks(3, [](const ProcessGroup& world) {
    const int rank = world.rank();
    const int64_t before = memory_use(rank).current;
    reset_peak_memory(rank);
    {
      const at::Tensor kept = at::empty({1000 * (rank + 1)}, at::kFloat);
      EXPECT_EQ(memory_use(rank).current - before, 4000 * (rank + 1));
      { const at::Tensor large = at::empty({1 << 20}, at::kDouble); }
      EXPECT_EQ(memory_use(rank).current - before, 4000 * (rank + 1));
      EXPECT_EQ(memory_use(rank).peak - before, 4000 * (rank + 1) + (8 << 20));
      reset_peak_memory(rank);
      EXPECT_EQ(memory_use(rank).peak - before, 4000 * (rank + 1));
    }
    EXPECT_EQ(memory_use(rank).current, before);
  });
}

TEST(Memory, FreedElsewhereCountsForItsOwner) {
  install_memory_counting();
  const MemoryRankGuard seven(7);
  const int64_t of_seven = memory_use(7).current;
  const int64_t of_eight = memory_use(8).current;
  at::Tensor tensor = at::empty({100000}, at::kFloat);
  std::thread([moved = std::move(tensor)]() mutable {
    const MemoryRankGuard eight(8);
    moved.reset();
  }).join();
  EXPECT_EQ(memory_use(7).current, of_seven);
  EXPECT_EQ(memory_use(8).current, of_eight);
}

TEST(Memory, BackwardCountsForTheCaller) {
  run_ranks(2, [](const ProcessGroup& world) {
    const int64_t before = memory_use(world.rank()).current;
    const at::Tensor x = at::ones({100, 100}, at::kDouble).requires_grad_(true);
    (x * x).sum().backward();
    EXPECT_EQ(memory_use(world.rank()).current - before, 2 * 80000);
  });
}

TEST(Memory, StorageCanBeFreedAndRefilled) {
  install_memory_counting();
  const MemoryRankGuard rank(9);
  const int64_t before = memory_use(9).current;
  const at::Tensor tensor = at::empty({50000}, at::kFloat);
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  for (const size_t bytes : {size_t{0}, size_t{200000}}) {
    storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
    storage->set_nbytes(bytes);
    EXPECT_EQ(memory_use(9).current - before, static_cast<int64_t>(bytes));
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0U);
}

TEST(BlockCache, SizesAreTightAndReused) {
  for (size_t bytes = BlockCache::kSmallest; bytes < (size_t{1} << 33);
       bytes = bytes * 17 / 16 + 1) {
    const size_t size = BlockCache::rounded(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_LE(size - bytes, bytes / 8);
    ASSERT_EQ(size % BlockCache::kAlignment, 0U);
    ASSERT_EQ(BlockCache::rounded(size), size);
  }
  BlockCache cache;
  void* block = cache.take(100000);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0U);
  cache.give(block, 100000);
  EXPECT_EQ(cache.kept_bytes(), BlockCache::rounded(100000));
  EXPECT_EQ(cache.take(100000), block);
  EXPECT_EQ(cache.kept_bytes(), 0U);
  cache.give(block, 100000);
  cache.release();
  EXPECT_EQ(cache.kept_bytes(), 0U);
}

// A run whose sizes change does not keep what it no longer uses.
TEST(BlockCache, KeepsNotMuchMoreThanTheMostUsed) {
  BlockCache cache;
  constexpr size_t kMiB = 1 << 20;
  for (size_t size = 64 * kMiB; size < 256 * kMiB; size += 8 * kMiB) {
    void* block = cache.take(size);
    cache.give(block, size);
  }
  EXPECT_LE(cache.kept_bytes(), 256 * kMiB * 5 / 4 + 64 * kMiB + 256 * kMiB);
  cache.release();
}

}  // namespace
}  // namespace tessera
