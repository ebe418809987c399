#pragma once

// Where a run gets its first weights from.

#include <filesystem>

#include "tessera/config/config.h"
#include "tessera/storage/generation.h"

namespace tessera {

struct StartingPoint {
  std::filesystem::path path;  // a checkpoint, a folder of several, a published model; empty: none
  bool own = false;  // a complete checkpoint was found where this run saves: it goes on as a whole
  std::string job;   // only checkpoints that this run has saved count; empty: all there
};

/// With checkpoint.resume: auto the run's own checkpoints, as soon as one is complete; until then,
/// and without it, checkpoint.load_path. The own folder as load_path of such a run is no place to
/// start from while it holds nothing. A run that was started before goes on from what it has saved
/// itself, whatever the file says.
StartingPoint starting_point(const Config& config, const Generation& generation = {});

}  // namespace tessera
