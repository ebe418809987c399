#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// What a checkpoint, a folder of checkpoints or a Hugging Face folder holds, as text. With
/// `verify` every byte is read and every checksum compared (a Hugging Face folder has none: its
/// headers are checked, and that no weight is infinite or not a number). Throws CheckpointError
/// that names the damaged file.
std::string inspect_folder(const std::filesystem::path& folder, bool verify);

/// What one .safetensors file holds: name, shape, dtype and bytes of every tensor, totals. With
/// `verify` no weight may be infinite or not a number. Throws CheckpointError that names it.
std::string inspect_weight_file(const std::filesystem::path& file, bool verify);

}  // namespace tessera
