#pragma once

#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"

namespace tessera {

/// What was found where a run gets its weights from.
struct WeightsCheck {
  std::vector<Issue> issues;
  std::vector<Issue> absent;  // the folder is not there: an error in a run, a warning in a plan
  /// The errors in `issues` are about checkpoints of this program (ExitCode::kCheckpoint in a run).
  bool of_checkpoint = false;
};

/// Looks at what lies at checkpoint.load_path (or, with checkpoint.resume: auto, at the run's own
/// checkpoints): what it is, and if `is_valid` whether names, shapes and types fit the model.
/// Headers and manifests only. `is_valid`: the rules have found no error. Never throws for what
/// lies there.
WeightsCheck check_weights(const Config& config, const Provenance& provenance, bool is_valid);

}  // namespace tessera
