#pragma once

// How a thread sleeps until another one has news for it, without spinning: ranks outnumber cores.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

/// An event count on a futex (Linux). To wait: read value(), look whether what is waited for has
/// happened, and if not sleep(value). A ring() between the two makes sleep() return at once.
/// `kShared`: in memory that several processes share (all zero is a valid beginning).
template <bool kShared>
class BasicDoorbell {
 public:
  using Clock = std::chrono::steady_clock;

  uint32_t value() const { return value_.load(std::memory_order_seq_cst); }
  /// Wakes all who sleep on it. What was written before is visible to them. No system call when
  /// nobody sleeps.
  void ring();
  /// Returns when the value is no longer `seen`, at `deadline`, or for no reason.
  void sleep(uint32_t seen, Clock::time_point deadline);

 private:
  std::atomic<uint32_t> value_{0};
  std::atomic<int> sleepers_{0};
};

using Doorbell = BasicDoorbell<false>;
using SharedDoorbell = BasicDoorbell<true>;

}  // namespace tessera
