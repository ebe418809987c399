#pragma once

// Loading: from any layout into any other.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/checkpoint/stored_rows.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/layout/model_spec.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/manifest.h"

namespace tessera {

struct LoadOptions {
  std::string path;       // a checkpoint, or the folder of several
  std::string optimizer;  // the type of the run's; empty: weights only
  bool has_state = true;  // false: it keeps nothing, so a checkpoint without its state is enough
  bool balanced = false;  // a box that several ranks hold is read by one of them and sent
  std::string job;        // of a folder of several only what this run has saved; empty: all of it
  WeightRows rows = WeightRows::kAll;  // that are read; kBase: of a checkpoint without adapters
  std::string base;            // fingerprint of the model that was read before; empty: none was
  bool marks_damaged = false;  // what is found damaged is never tried again (mark_damaged)
};

/// What was loaded, without its tensors.
struct LoadedCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;  // no files, weights or state
};

/// Reads this rank's boxes. A damaged checkpoint among several is passed over, and said; a damaged
/// one that was asked for by name, or one that does not fit the model, is CheckpointError on all
/// ranks alike. Collective over the world of `mesh`.
LoadedCheckpoint load_checkpoint(const LoadOptions& options, const std::vector<ParamSpec>& model,
                                 ParamTable& table, const OptimizerState& optimizer,
                                 const DeviceMesh& mesh);

}  // namespace tessera
