#pragma once

// How targets take their input apart, and where they put files for readers that want a path.

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.h"

namespace tessera::fuzz {

/// The lines of `input`, without their ends. An empty input has none.
inline std::vector<std::string> lines_of(std::string_view input) {
  std::vector<std::string> lines;
  while (!input.empty()) {
    const size_t end = input.find('\n');
    lines.emplace_back(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  return lines;
}

/// A folder that is removed with the process. Targets run one after the other, so that one is
/// enough.
inline const std::filesystem::path& scratch_folder() {
  static const test::TempDir folder;
  return folder.path();
}

/// Writes `bytes` to scratch_folder()/`name` and returns the path.
inline std::string scratch_file(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = scratch_folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

}  // namespace tessera::fuzz
