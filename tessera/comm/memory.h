#pragma once

// Host memory of tensors, counted by rank, whether ranks are threads or processes: every block
// belongs to the rank of the thread that allocated it, wherever it is freed. Large freed blocks are
// kept for reuse (block_cache.h).

#include <cstdint>

namespace tessera {

struct MemoryUse {
  int64_t current = 0;  // bytes in tensors now
  int64_t peak = 0;     // the most since the start or the last reset_peak_memory()
};

/// Makes this the allocator of all CPU tensors made from now on; run_ranks and join_process_world
/// do it. Calling it again does nothing.
void install_memory_counting();

/// While it lives, the calling thread allocates for `rank` (0 to 4095). Threads without one (all of
/// a process that is one rank) allocate for rank 0.
class MemoryRankGuard {
 public:
  explicit MemoryRankGuard(int rank);
  ~MemoryRankGuard();
  MemoryRankGuard(const MemoryRankGuard&) = delete;
  MemoryRankGuard& operator=(const MemoryRankGuard&) = delete;

 private:
  const int before_;
};

/// For whom the calling thread allocates.
int memory_rank();

MemoryUse memory_use(int rank);
/// The peak of `rank` starts again from what it uses now.
void reset_peak_memory(int rank);

}  // namespace tessera
