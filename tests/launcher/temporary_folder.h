#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace tessera {

/// A temporary folder whose files are named by strings.
class TemporaryFolder {
 public:
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  test::TempDir folder_;
};

inline std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace tessera
