#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// What a failed worker leaves in its log.
struct LogEnd {
  std::string context;  // the last lines before the error
  std::string error;    // from the last "error: " line on; empty when there is none
};

/// The end of the log at `path`, at most `lines` lines of context and as many of the error.
LogEnd read_log_end(const std::string& path, int lines = 20);

/// Follows a worker's log and copies its complete lines to standard output, each with `prefix`
/// before it. From the first line that starts with "error: " on it holds back: what a worker dies
/// of is shown once, by the report on the failure.
class LogEcho {
 public:
  LogEcho(std::string path, std::string prefix);

  /// Copies what has been written since.
  void poll();
  /// Copies all that is left, also what was held back. For workers that ended well.
  void finish();

 private:
  void copy_lines(bool all);

  std::string path_;
  std::string prefix_;
  int64_t offset_ = 0;
  std::string pending_;
  bool holding_ = false;
};

}  // namespace tessera
