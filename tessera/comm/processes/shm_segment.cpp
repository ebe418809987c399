#include "tessera/comm/processes/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <new>

namespace tessera {
namespace {

constexpr uint64_t kRingsTogether = 32 << 20;
constexpr uint64_t kLargestRing = 1 << 20;
constexpr uint64_t kSmallestRing = 8 << 10;
constexpr uint64_t kPage = 4096;

struct alignas(64) Bell {
  SharedDoorbell bell;
};

uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

uint64_t head_bytes(uint64_t size) {
  return pages(size * sizeof(Bell) + size * size * sizeof(ShmChannel));
}

uint64_t ring_bytes_of(uint64_t size) {
  const uint64_t fair = kRingsTogether / (size * size) / kPage * kPage;
  return std::clamp(fair, kSmallestRing, kLargestRing);
}

// A lock on the byte of its rank says that a process has the segment open; the kernel takes it away
// when the process ends, however it ends.
struct flock lock_of(int rank, int type) {
  struct flock lock {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

static_assert(std::atomic<uint64_t>::is_always_lock_free);

ShmSegment::ShmSegment(int fd, int rank, int size)
    : fd_(fd), rank_(rank), size_(size), ring_bytes_(ring_bytes_of(static_cast<uint64_t>(size))) {}

ShmSegment::~ShmSegment() {
  const auto size = static_cast<uint64_t>(size_);
  if (base_ != nullptr) munmap(base_, head_bytes(size) + size * size * ring_bytes_);
  close(fd_);
}

// The zeros of a new file are valid bells and channels.
bool ShmSegment::map() {
  const auto size = static_cast<uint64_t>(size_);
  const uint64_t bytes = head_bytes(size) + size * size * ring_bytes_;
  struct flock lock = lock_of(rank_, F_WRLCK);
  if (fcntl(fd_, F_OFD_SETLK, &lock) != 0) return false;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (base == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(base);
  return true;
}

std::unique_ptr<ShmSegment> ShmSegment::create(int rank, int size) {
  const int fd = memfd_create("tessera", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  std::unique_ptr<ShmSegment> segment(new ShmSegment(fd, rank, size));
  const auto n = static_cast<uint64_t>(size);
  if (ftruncate(fd, static_cast<off_t>(head_bytes(n) + n * n * segment->ring_bytes_)) != 0) {
    return nullptr;
  }
  return segment->map() ? std::move(segment) : nullptr;
}

std::unique_ptr<ShmSegment> ShmSegment::open(const std::string& handle, int rank, int size) {
  const int fd = ::open(handle.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  std::unique_ptr<ShmSegment> segment(new ShmSegment(fd, rank, size));
  return segment->map() ? std::move(segment) : nullptr;
}

std::string ShmSegment::handle() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_);
}

SharedDoorbell& ShmSegment::bell(int rank) const {
  return std::launder(reinterpret_cast<Bell*>(base_) + rank)->bell;
}

ShmChannel& ShmSegment::channel(int from, int to) const {
  auto* channels = reinterpret_cast<ShmChannel*>(base_ + static_cast<size_t>(size_) * sizeof(Bell));
  return *std::launder(channels + from * size_ + to);
}

std::byte* ShmSegment::ring(int from, int to) const {
  return base_ + head_bytes(static_cast<uint64_t>(size_)) +
         static_cast<uint64_t>(from * size_ + to) * ring_bytes_;
}

bool ShmSegment::alive(int rank) const {
  struct flock lock = lock_of(rank, F_WRLCK);
  return fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 256> space{};
  const ssize_t length = readlink("/proc/self/ns/pid", space.data(), space.size());
  return boot + " " + std::string(space.data(), static_cast<size_t>(std::max<ssize_t>(length, 0))) +
         " " + std::to_string(getuid());
}

}  // namespace tessera
