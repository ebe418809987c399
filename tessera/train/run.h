#pragma once

// Training and proving as the programs do it: threads or processes, signals, files.

#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/launcher/restarts.h"
#include "tessera/train/metrics.h"
#include "tessera/train/parity/faults.h"
#include "tessera/train/run_world.h"

namespace tessera {

struct RunOptions : WorldOptions {
  std::vector<Restart> restarts;  // of this run, since the last step that was finished
  Faults faults;
  std::string trace;  // file for the timelines of all ranks; empty: none
};

/// Trains by the file. Returns 0, or 128 + the signal that ended it early (SIGINT, SIGTERM: the
/// current step is finished first). Throws what went wrong.
int run_training(const Config& config, const RunOptions& options);

/// The loss of the model at checkpoint.load_path on every set of eval_dataset, on the layout of the
/// file. The same on every rank. Throws what went wrong.
std::vector<EvalMetrics> run_evaluation(const Config& config, const WorldOptions& options);

}  // namespace tessera
