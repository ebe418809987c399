#pragma once

#include <string>

#include "tessera/config/config.h"

namespace tessera {

/// A path of a configuration file in `directory`: absolute as it is; else beside the file when it
/// exists there, else relative to the working directory. The result is absolute.
std::string resolve_path(const std::string& directory, const std::string& path);

/// The same for the prefix of a token file (<prefix>.idx, <prefix>.bin).
std::string resolve_prefix(const std::string& directory, const std::string& prefix);

/// Whether `directory` is a Hugging Face folder: it holds a config.json, and is no checkpoint.
bool is_hf_folder(const std::string& directory);

/// The checkpoint at `directory` (it, or the one of several that the pointer names) if a
/// config.json is in it; else empty.
std::string checkpoint_with_config(const std::string& directory);

/// Where checkpoints go: checkpoint.save_path, else <output_dir>/checkpoint.
std::string save_directory(const Config& config);

}  // namespace tessera
