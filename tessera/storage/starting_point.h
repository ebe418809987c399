#pragma once

// Where a run gets its first weights from.

#include <filesystem>

#include "tessera/config/config.h"

namespace tessera {

struct StartingPoint {
  std::filesystem::path path;  // a checkpoint, a folder of several, a published model; empty: none
  bool own = false;  // checkpoint.resume: auto found a complete checkpoint where this run saves
};

/// With checkpoint.resume: auto the run's own checkpoints, as soon as one is complete; until then,
/// and without it, checkpoint.load_path. The own folder as load_path of such a run is no place to
/// start from while it holds nothing.
StartingPoint starting_point(const Config& config);

}  // namespace tessera
