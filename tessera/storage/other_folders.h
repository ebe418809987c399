#pragma once

// Folders that a user takes for a model or a checkpoint, and that are none.

#include <filesystem>
#include <string>

namespace tessera {

/// What `path`, which is not the folder of a model or checkpoint that was asked for, is instead,
/// and what to point at: the root of a hub's cache, a file, weights in another format, an adapter,
/// a folder above the model. Never throws for what lies there.
std::string what_it_is_instead(const std::filesystem::path& path);

/// Whether a .safetensors file in `folder` has names of MindFormers' own.
bool is_of_mindformers(const std::filesystem::path& folder);

}  // namespace tessera
