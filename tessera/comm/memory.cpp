#include "tessera/comm/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "tessera/base/error.h"
#include "tessera/comm/block_cache.h"

namespace tessera {
namespace {

constexpr int kMaxRanks = 4096;

// Under the address sanitizer freed memory must stay poisoned.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepBlocks = false;
#else
constexpr bool kKeepBlocks = true;
#endif

thread_local int thread_rank = 0;

struct alignas(64) Counter {
  std::atomic<int64_t> current{0};
  std::atomic<int64_t> peak{0};

  void add(int64_t bytes) {
    const int64_t now = current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t seen = peak.load(std::memory_order_relaxed);
    while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
};

// In front of every block, so that whoever frees it knows whose it was.
struct alignas(64) Header {
  size_t bytes;  // as asked for
  int rank;
};
static_assert(sizeof(Header) == BlockCache::kAlignment);

struct State {
  std::array<Counter, kMaxRanks> counters;
  BlockCache cache;
};

// Never destroyed: tensors may be freed after every static object is gone.
State& state() {
  static State& instance = *new State;
  return instance;
}

bool from_cache(size_t total) { return kKeepBlocks && total >= BlockCache::kSmallest; }

void* allocate(size_t bytes) {
  const size_t total = bytes + sizeof(Header);
  void* block = nullptr;
  if (from_cache(total)) {
    block = state().cache.take(total);
  } else if (posix_memalign(&block, BlockCache::kAlignment, total) != 0) {
    block = nullptr;
  }
  TORCH_CHECK(block != nullptr, "out of memory: ", bytes, " bytes for a tensor");
  const int rank = memory_rank();
  auto* header = new (block) Header{bytes, rank};
  state().counters[static_cast<size_t>(rank)].add(static_cast<int64_t>(bytes));
  return header + 1;
}

void deallocate(void* data) {
  if (data == nullptr) return;
  Header* header = static_cast<Header*>(data) - 1;
  const Header known = *header;
  state().counters[static_cast<size_t>(known.rank)].current.fetch_sub(
      static_cast<int64_t>(known.bytes), std::memory_order_relaxed);
  const size_t total = known.bytes + sizeof(Header);
  if (from_cache(total)) {
    state().cache.give(header, total);
  } else {
    std::free(header);
  }
}

class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : tessera::allocate(bytes);
    return {data, data, &deallocate, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &deallocate; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install_memory_counting() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingAllocator& allocator = *new CountingAllocator;
    c10::SetCPUAllocator(&allocator, /*priority=*/100);
  });
}

MemoryRankGuard::MemoryRankGuard(int rank) : before_(thread_rank) {
  TESSERA_CHECK(rank >= 0 && rank < kMaxRanks, "rank ", rank);
  thread_rank = rank;
}

MemoryRankGuard::~MemoryRankGuard() { thread_rank = before_; }

int memory_rank() { return thread_rank; }

MemoryUse memory_use(int rank) {
  const Counter& counter = state().counters.at(static_cast<size_t>(rank));
  return {counter.current.load(), counter.peak.load()};
}

void reset_peak_memory(int rank) {
  Counter& counter = state().counters.at(static_cast<size_t>(rank));
  counter.peak = counter.current.load();
}

}  // namespace tessera
