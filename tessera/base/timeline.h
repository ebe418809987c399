#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// What one rank did and when. Written by any thread that works for the rank (two parts that take
/// turns, autograd's), never by two at once.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  struct Event {
    const char* kind;  // "forward", "gather", …
    std::string what;  // layer or unit; may be empty
    int64_t micro_batch = -1;
    int64_t work = -1;     // query-key pairs of an attention span
    bool second = false;   // of the second of two parts that take turns
    int64_t begin_ns = 0;  // since the Unix epoch
    int64_t duration_ns = 0;
  };

  Timeline();
  void record(const char* kind, std::string_view what, int64_t micro_batch, int64_t work,
              Clock::time_point begin, Clock::time_point end);
  /// Whose turn it is of two parts: what is recorded from now on is the second's, or not.
  void set_second(bool second) { second_ = second; }
  const std::vector<Event>& events() const { return events_; }
  /// Left out because there were too many.
  int64_t dropped() const { return dropped_; }

 private:
  Clock::time_point start_;
  int64_t start_ns_ = 0;
  bool second_ = false;
  std::vector<Event> events_;
  int64_t dropped_ = 0;
};

/// Records its own lifetime; nothing without a timeline. `what` must outlive it.
class TimelineSpan {
 public:
  TimelineSpan(Timeline* timeline, const char* kind, std::string_view what = {},
               int64_t micro_batch = -1, int64_t work = -1)
      : timeline_(timeline), kind_(kind), what_(what), micro_batch_(micro_batch), work_(work) {
    if (timeline_ != nullptr) begin_ = Timeline::Clock::now();
  }
  ~TimelineSpan() {
    if (timeline_ == nullptr) return;
    timeline_->record(kind_, what_, micro_batch_, work_, begin_, Timeline::Clock::now());
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  Timeline* timeline_;
  const char* kind_;
  std::string_view what_;
  int64_t micro_batch_;
  int64_t work_;
  Timeline::Clock::time_point begin_;
};

}  // namespace tessera
