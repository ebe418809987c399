#include "tessera/comm/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera {

namespace {

template <bool kShared>
constexpr int operation(int op) {
  return kShared ? op : op | FUTEX_PRIVATE_FLAG;
}

}  // namespace

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// ring() adds before it looks for sleepers, sleep() enters before the kernel compares the value: in
// the single order of sequentially consistent operations one of the two sees the other.
template <bool kShared>
void BasicDoorbell<kShared>::ring() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &value_, operation<kShared>(FUTEX_WAKE), INT_MAX, nullptr, nullptr, 0);
}

template <bool kShared>
void BasicDoorbell<kShared>::sleep(uint32_t seen, Clock::time_point deadline) {
  const auto left = deadline - Clock::now();
  if (left <= Clock::duration::zero()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count();
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &value_, operation<kShared>(FUTEX_WAIT), seen, &timeout, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

template class BasicDoorbell<false>;
template class BasicDoorbell<true>;

}  // namespace tessera
