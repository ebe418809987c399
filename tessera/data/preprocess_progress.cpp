#include <unistd.h>

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
    const bool done = progress.bytes_done >= progress.bytes_total;
    if (!done && now - line->shown < std::chrono::milliseconds(200)) return;
    line->shown = now;
    const double seconds = std::chrono::duration<double>(now - line->started).count();
    const double share = progress.bytes_total > 0 ? static_cast<double>(progress.bytes_done) /
                                                        static_cast<double>(progress.bytes_total)
                                                  : 1.0;
    const auto left = static_cast<long>(share > 0.0 ? seconds * (1.0 - share) / share : 0.0);
    std::fprintf(
        stderr,
        "\r%3.0f%%  %.1f of %.1f MB, %lld documents, %.2f M tokens, %ld:%02ld left \033[K%s",
        100.0 * share, static_cast<double>(progress.bytes_done) / 1e6,
        static_cast<double>(progress.bytes_total) / 1e6, static_cast<long long>(progress.documents),
        static_cast<double>(progress.tokens) / 1e6, left / 60, left % 60, done ? "\n" : "");
    std::fflush(stderr);
  };
}

}  // namespace tessera
