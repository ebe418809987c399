#pragma once

// The configuration of a model that only writes: of a folder, a checkpoint, or a file with
// `inference`.

#include <string>
#include <vector>

#include "tessera/config/config.h"

namespace tessera {

struct ModelSource {
  std::string folder;             // a Hugging Face folder
  std::string adapter;            // a folder of low-rank adapters of it
  std::string checkpoint;         // one, or the folder of several
  std::string config;             // a file; its checkpoint.load_path names the weights
  std::string dtype = "float32";  // of folder and checkpoint: weights and computation
};

/// Exactly one of the three is given. `overrides` ("section.field=value") come last. Rules of
/// training alone are not looked at. Throws ConfigError, CheckpointError.
Config generation_config(const ModelSource& source, const std::vector<std::string>& overrides,
                         int64_t world);

}  // namespace tessera
