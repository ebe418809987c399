#include "tessera/base/timeline.h"

namespace tessera {
namespace {

// About 100 MB of events; a viewer opens no more than that anyway.
constexpr size_t kMostEvents = 1'000'000;

int64_t nanoseconds(std::chrono::nanoseconds duration) { return duration.count(); }

}  // namespace

Timeline::Timeline()
    : start_(Clock::now()),
      start_ns_(nanoseconds(std::chrono::system_clock::now().time_since_epoch())) {}

void Timeline::record(const char* kind, std::string_view what, int64_t micro_batch, int64_t work,
                      Clock::time_point begin, Clock::time_point end) {
  if (events_.size() == kMostEvents) {
    ++dropped_;
    return;
  }
  events_.push_back({kind, std::string(what), micro_batch, work, second_,
                     start_ns_ + nanoseconds(begin - start_), nanoseconds(end - begin)});
}

}  // namespace tessera
