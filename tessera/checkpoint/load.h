#pragma once

// Loading: from any layout into any other.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/stored_rows.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/layout/model_spec.h"

namespace tessera {

struct LoadOptions {
  std::string path;       // a checkpoint, or the folder of several
  std::string optimizer;  // the type of the run's; empty: weights only
  bool has_state = true;  // false: it keeps nothing, so a checkpoint without its state is enough
  bool balanced = false;  // a box that several ranks hold is read by one of them and sent
};

/// What was loaded, without its tensors.
struct LoadedCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;  // no files, weights or state
};

/// Folders to try, best first, and what is odd about them (or empty).
struct CheckpointChoice {
  std::vector<std::filesystem::path> folders;
  std::string note;
};

/// The one that `path` is; of a folder of several what the pointer names, then from the newest
/// down. Throws CheckpointError when there is none, naming what is there (a MindFormers checkpoint
/// is recognised).
CheckpointChoice checkpoints_at(const std::filesystem::path& path);

/// Everything in which a checkpoint does not fit `model`, as one text; empty: it fits.
std::string compare_with_model(const Manifest& manifest, const std::vector<ParamSpec>& model);

/// Reads this rank's boxes. A damaged checkpoint among several is passed over, and said; a damaged
/// one that was asked for by name, or one that does not fit the model, is CheckpointError on all
/// ranks alike. Collective over the world of `mesh`.
LoadedCheckpoint load_checkpoint(const LoadOptions& options, const std::vector<ParamSpec>& model,
                                 ParamTable& table, const OptimizerState& optimizer,
                                 const DeviceMesh& mesh);

}  // namespace tessera
