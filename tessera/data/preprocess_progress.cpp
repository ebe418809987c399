#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "tessera/data/preprocess.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

struct Line {
  Clock::time_point started = Clock::now();
  Clock::time_point shown;  // long ago
};

}  // namespace

std::function<void(const PreprocessProgress&)> terminal_progress() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [line = std::make_shared<Line>()](const PreprocessProgress& progress) {
    const auto now = Clock::now();
    if (!progress.finished && now - line->shown < std::chrono::milliseconds(200)) return;
    line->shown = now;
    const auto done = static_cast<double>(progress.bytes_done);
    std::fprintf(stderr, "\r");
    if (progress.bytes_total) {
      const auto total = static_cast<double>(*progress.bytes_total);
      const double seconds = std::chrono::duration<double>(now - line->started).count();
      const double share = total > 0 ? std::min(1.0, done / total) : 1.0;
      const auto left = static_cast<long>(share > 0.0 ? seconds * (1.0 - share) / share : 0.0);
      std::fprintf(stderr, "%3.0f%%  %.1f of %.1f MB, %ld:%02ld left, ", 100.0 * share, done / 1e6,
                   total / 1e6, left / 60, left % 60);
    } else {
      std::fprintf(stderr, "%.1f MB, ", done / 1e6);
    }
    std::fprintf(stderr, "%lld documents, %.2f M tokens \033[K%s",
                 static_cast<long long>(progress.documents),
                 static_cast<double>(progress.tokens) / 1e6, progress.finished ? "\n" : "");
    std::fflush(stderr);
  };
}

}  // namespace tessera
