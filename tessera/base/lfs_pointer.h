#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// What to say of a file that is only the pointer of Git LFS to its content (a clone without
/// `git lfs`), without the file's name; empty for any other file.
std::string lfs_pointer_problem(const std::filesystem::path& file);

}  // namespace tessera
