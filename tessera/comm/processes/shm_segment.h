#pragma once

// The memory that the processes of one host share: a doorbell per rank and a ring of bytes for
// every ordered pair of ranks. It has no name in any file system and goes with the last process.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/comm/doorbell.h"

namespace tessera {

/// What went in and what came out, in bytes since the start; written by sender and receiver.
struct ShmChannel {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  std::atomic<uint32_t> sender_waits;  // the ring was full
};

class ShmSegment {
 public:
  /// A new segment, or std::nullptr where the system has none to give.
  static std::unique_ptr<ShmSegment> create(int rank, int size);
  /// The segment that another process of this host described with handle(); nullptr if it cannot be
  /// opened (other user, other namespace).
  static std::unique_ptr<ShmSegment> open(const std::string& handle, int rank, int size);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  std::string handle() const;

  SharedDoorbell& bell(int rank) const;
  ShmChannel& channel(int from, int to) const;
  std::byte* ring(int from, int to) const;  // of ring_bytes()
  uint64_t ring_bytes() const { return ring_bytes_; }
  /// Whether the process of `rank` still has the segment open.
  bool alive(int rank) const;

 private:
  ShmSegment(int fd, int rank, int size);
  bool map();

  const int fd_;
  const int rank_;
  const int size_;
  const uint64_t ring_bytes_;
  std::byte* base_ = nullptr;
};

/// Equal for processes that can open each other's segments: machine, process namespace, user.
std::string host_identity();

}  // namespace tessera
