#include "tessera/comm/turns.h"

#include <ATen/Parallel.h>

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/comm/devices/rank_device.h"
#include "tessera/comm/memory.h"

namespace tessera {
namespace {

// Unwinds a part whose other one has failed.
struct OtherFailed : std::runtime_error {
  OtherFailed() : std::runtime_error("the other part of this rank's work has failed") {}
};

class Turns {
 public:
  explicit Turns(Timeline* timeline) : timeline_(timeline) {}

  Timeline* timeline() const { return timeline_; }

  void pass(size_t me) {
    std::unique_lock lock(mutex_);
    if (!ended_[1 - me]) {
      give_turn(1 - me);
      changed_.wait(lock, [&] { return turn_ == me; });
    }
    if (error_) throw OtherFailed();
  }

  void run(size_t me, const std::function<void()>& part);

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void end(size_t me, std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (error && !error_) error_ = std::move(error);
    ended_[me] = true;
    give_turn(1 - me);
  }

  void give_turn(size_t to) {
    turn_ = to;
    if (timeline_ != nullptr) timeline_->set_second(to == 1 && !ended_[1]);
    changed_.notify_all();
  }

  Timeline* const timeline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t turn_ = 0;
  std::array<bool, 2> ended_{};
  std::exception_ptr error_;  // the first
};

// The part that the calling thread runs.
struct Seat {
  Turns* turns = nullptr;
  size_t me = 0;
};
thread_local Seat seat;

void Turns::run(size_t me, const std::function<void()>& part) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == me; });
    if (error_) {
      ended_[me] = true;
      give_turn(1 - me);
      return;
    }
  }
  seat = {this, me};
  std::exception_ptr error;
  try {
    part();
  } catch (...) {
    error = std::current_exception();
  }
  seat = {};
  end(me, std::move(error));
}

}  // namespace

void run_in_turns(const std::function<void()>& first, const std::function<void()>& second,
                  Timeline* timeline) {
  TESSERA_CHECK(seat.turns == nullptr, "parts of a part");
  Turns turns(timeline);
  const int rank = memory_rank();
  const int operator_threads = at::get_num_threads();
  const at::Device device = current_device();
  std::thread other([&] {
    const MemoryRankGuard memory(rank);
    use_device(device);
    at::set_num_threads(operator_threads);  // of this thread
    turns.run(1, second);
  });
  turns.run(0, first);
  other.join();
  turns.rethrow();
}

void pass_turn() {
  if (seat.turns != nullptr) seat.turns->pass(seat.me);
}

Timeline* timeline_of_turn() { return seat.turns == nullptr ? nullptr : seat.turns->timeline(); }

}  // namespace tessera
