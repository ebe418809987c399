#pragma once

// The event file of a run, written by a thread of its own.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tessera/observe/step_points.h"

namespace tessera {

struct TensorboardLogOptions {
  TensorboardConfig config;
  StepPointsOptions points;
  /// Lines of metrics.jsonl before the first that is added: those of the run that this one goes on
  /// with.
  std::vector<std::string> kept;
  /// The resolved file. Each of its sections is a text of its own.
  std::string yaml;
};

class TensorboardLog {
 public:
  /// Starts a file in config.output_dir, see EventFile; throws as that does. With the first step
  /// comes a record that says from which step on earlier files of the folder do not count. By that
  /// number readers also drop points over samples, which lie further to the right: those of the
  /// kept lines are written again.
  explicit TensorboardLog(TensorboardLogOptions options);
  /// Writes what waits.
  ~TensorboardLog();
  TensorboardLog(const TensorboardLog&) = delete;
  TensorboardLog& operator=(const TensorboardLog&) = delete;

  /// `line` of metrics.jsonl; drawn if its step is a multiple of log_interval. Returns at once, but
  /// when queue_size lines wait: then as soon as one of them is written. A file that takes no more
  /// is said once.
  void add(std::string line);

  const std::string& path() const { return file_.path(); }

 private:
  struct Waiting {
    std::string line;
    double wall_time;
  };
  void run();
  void write_start(int64_t steps_done);
  void write(const Waiting& waiting);

  TensorboardLogOptions options_;
  EventFile file_;
  // The thread's.
  int64_t skipped_ = 0;
  bool started_ = false;
  bool lost_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace tessera
