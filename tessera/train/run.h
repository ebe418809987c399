#pragma once

// Training and proving as the programs do it: threads or processes, signals, files.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/launcher/job_secret.h"
#include "tessera/launcher/restarts.h"
#include "tessera/launcher/worker_environment.h"
#include "tessera/train/faults.h"

namespace tessera {

struct RunOptions {
  int64_t thread_ranks = 1;                 // without `worker`: ranks as threads of this process
  std::optional<WorkerEnvironment> worker;  // this process is one rank of several
  std::vector<Restart> restarts;            // of this run, since the last step that was finished
  JobSecret secret;                         // asked of the other workers, if it is set
  Faults faults;
  std::string trace;  // file for the timelines of all ranks; empty: none
};

/// Trains by the file. Returns 0, or 128 + the signal that ended it early (SIGINT, SIGTERM: the
/// current step is finished first). Throws what went wrong.
int run_training(const Config& config, const RunOptions& options);

}  // namespace tessera
