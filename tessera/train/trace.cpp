#include "tessera/train/trace.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/gather_text.h"

namespace tessera {
namespace {

// Kinds and names are our own words (no quotes, no backslashes). Times are in microseconds.
// A rank's second thread has a row of its own, `world` rows further.
std::string row_name(int row, int rank, const char* what) {
  return detail::concat(R"({"ph":"M","name":"thread_name","pid":0,"tid":)", row,
                        R"(,"args":{"name":"rank )", rank, what, "\"}}");
}

std::string trace_events(const Timeline& timeline, int rank, int world) {
  std::string text = row_name(rank, rank, "");
  if (std::ranges::any_of(timeline.events(), &Timeline::Event::second)) {
    text += ",\n" + row_name(world + rank, rank, ", forward beside a backward");
  }
  for (const Timeline::Event& event : timeline.events()) {
    char times[96];
    std::snprintf(times, sizeof(times), "\"ts\":%.3f,\"dur\":%.3f",
                  static_cast<double>(event.begin_ns) / 1e3,
                  static_cast<double>(event.duration_ns) / 1e3);
    text += detail::concat(",\n", R"({"ph":"X","pid":0,"tid":)", event.second ? world + rank : rank,
                           R"(,"cat":")", event.kind, R"(","name":")", event.kind,
                           event.what.empty() ? "" : " ", event.what, "\",", times);
    if (event.micro_batch >= 0) {
      text += detail::concat(R"(,"args":{"micro_batch":)", event.micro_batch);
      if (event.work >= 0) text += detail::concat(R"(,"pairs":)", event.work);
      text += "}";
    }
    text += "}";
  }
  return text;
}

}  // namespace

void check_trace_file(const std::string& path) {
  if (!std::ofstream(path)) throw ConfigError("--trace " + path + ": cannot be written");
}

void write_trace(const std::string& path, const Timeline& timeline, const ProcessGroup& world) {
  const auto texts = gather_texts_to(0, world, trace_events(timeline, world.rank(), world.size()));
  if (world.rank() != 0) return;
  std::ofstream file(path);
  file << "{\"traceEvents\":[\n";
  for (size_t rank = 0; rank < texts.size(); ++rank) file << (rank ? ",\n" : "") << texts[rank];
  file << "\n]}\n";
  file.flush();
  if (!file) log_warning("--trace " + path + ": not written completely");
  if (timeline.dropped() > 0) {
    log_warning(detail::concat("--trace: the last ", timeline.dropped(),
                               " events of rank 0 were left out"));
  }
}

}  // namespace tessera
