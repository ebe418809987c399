#pragma once

// Event files of TensorBoard: records of length, sum, bytes, sum; each holds a message Event.
// Format: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto,
// framework/summary.proto.

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

/// As records store it: rotated, and a constant added.
uint32_t masked_crc32c(std::string_view bytes);

/// A count for each of `counts`, drawn over its index.
struct EventHistogram {
  std::string tag;
  std::vector<int64_t> counts;
};

struct EventScalar {
  std::string tag;
  double value = 0;  // stored as float32
};

/// What is drawn at one place of the x axis.
struct EventPoints {
  int64_t x = 0;
  double wall_time = 0;  // seconds since the Unix epoch
  std::vector<EventScalar> scalars;
  std::vector<EventHistogram> histograms;
};

class EventFile {
 public:
  /// Creates `folder` and in it a file that sorts after all event files that are there, with the
  /// record of the format's version. Throws ConfigError when it cannot.
  explicit EventFile(const std::string& folder);

  /// A reader forgets what earlier files of the folder hold from `x` on.
  void add_start(int64_t x, double wall_time);
  void add_text(const std::string& tag, const std::string& markdown, int64_t x, double wall_time);
  void add(const EventPoints& points);

  /// False when not all that was added could be written.
  bool flush();
  const std::string& path() const { return path_; }

 private:
  void add_record(const std::string& bytes);

  std::string path_;
  std::ofstream file_;
};

}  // namespace tessera
