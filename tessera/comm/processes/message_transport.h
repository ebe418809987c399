#pragma once

// Messages between the processes of a world, on which message_group.cpp builds every collective. A
// transport moves bytes straight from and to the memory it is given.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace tessera {

class MessageTransport {
 public:
  using Clock = std::chrono::steady_clock;

  /// Thrown by Request::wait; message_group.cpp makes a CommError of it.
  struct Failure : std::runtime_error {
    Failure(const std::string& what, bool timed_out)
        : std::runtime_error(what), timed_out(timed_out) {}
    bool timed_out;
  };

  class Request {
   public:
    /// Of a request that is not complete: it is given up, and the memory not touched any more.
    virtual ~Request() = default;
    /// Blocks until the memory is sent or filled.
    virtual void wait(Clock::time_point deadline) = 0;
    /// Whether wait() would return at once; false if the transport cannot tell.
    virtual bool done() { return false; }
    /// Makes the wait() of another thread fail.
    virtual void abort() = 0;
  };

  virtual ~MessageTransport() = default;

  /// Tags are 31 bits. Messages of one (sender, receiver, tag) arrive in order; sizes must agree.
  /// The memory stays as it is until the request is complete. A send may need its receiver's recv
  /// to complete.
  virtual std::unique_ptr<Request> send(const std::byte* data, int64_t bytes, int world_rank,
                                        int32_t tag) = 0;
  virtual std::unique_ptr<Request> recv(std::byte* data, int64_t bytes, int world_rank,
                                        int32_t tag) = 0;
};

}  // namespace tessera
