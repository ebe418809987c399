#pragma once

// Runs that start again: when, how often, and what it cost.

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tessera/launcher/worker_environment.h"

namespace tessera {

/// One start again of a run.
struct Restart {
  int64_t generation = 0;  // the start that it led to: 2 for the first restart
  std::string cause;       // one line
  int rank = -1;           // that was named; -1: none
  int exit_code = 0;       // with which the run would have ended
  int64_t reached = 0;     // steps that were finished when the run failed
  double failed_at = 0;    // seconds since 1970
  int64_t first_step = 0;  // with which it went on, from 1; 0: no step is finished yet
  double going_on_at = 0;  // when that step was finished

  /// Steps that were finished before and are done again.
  int64_t steps_lost() const;
  /// From the failure until the first step was finished.
  double seconds() const;
};

double unix_seconds();

/// The line of metrics.jsonl: {"restart": 2, "cause": ..., "steps_lost": ..., "seconds": ...}.
/// `samples`: trained on before the first step.
std::string json_line(const Restart& restart, int64_t samples);

/// What a launcher tells the workers of a start under kRestartsVariable, and the same read. What is
/// wrong in it is left out.
inline constexpr const char* kRestartsVariable = "TESSERA_RESTARTS";
std::string to_text(const std::vector<Restart>& restarts);
std::vector<Restart> restarts_of(const Environment& environment);

/// "2 restarts:" and one line for each; empty for none.
std::string report(const std::vector<Restart>& restarts);

/// Whether a run that ended with this code may start again: a peer or link (3), a checkpoint (4),
/// an internal error (1) and what no program of ours returns. Not what would come again (2, 5, 6, a
/// program that is missing), nor what the user asked for (0, 128 + n).
bool may_start_again(int exit_code);

/// How often a run starts again: `per_hour` times in any hour, and three times without a finished
/// step between them.
class RestartLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RestartLimit(int per_hour) : per_hour_(per_hour) {}

  /// Why it does not start again now; empty: it does, and this counts.
  std::string refusal(Clock::time_point now);
  void finished_step() { in_vain_ = 0; }

 private:
  int per_hour_;
  int in_vain_ = 0;
  std::deque<Clock::time_point> times_;  // of the last hour
};

}  // namespace tessera
