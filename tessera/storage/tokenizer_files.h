#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Whether `folder` holds files of a tokenizer.
bool has_tokenizer(const std::filesystem::path& folder);

/// Names and bytes of the tokenizer's files that are there, and of the generation settings. Throws
/// CheckpointError when one cannot be read.
std::vector<std::pair<std::string, std::string>> read_tokenizer_files(
    const std::filesystem::path& folder);

/// Copies the tokenizer's files that are there, and the generation settings. Returns their names.
/// Throws CheckpointError when one cannot be copied.
std::vector<std::string> copy_tokenizer_files(const std::filesystem::path& from,
                                              const std::filesystem::path& to);

}  // namespace tessera
