#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace tessera::test {

/// The root of the repository.
inline std::filesystem::path source_dir() { return TESSERA_SOURCE_DIR; }

/// The folder of a reference run (tests/cases/README.md). Runs that are too large for the
/// repository may lie beside it, in ../shared/cases. Throws when it is in neither place.
inline std::filesystem::path case_path(const std::string& name) {
  for (const char* folder : {"tests/cases", "../shared/cases"}) {
    const std::filesystem::path path = source_dir() / folder / name;
    if (std::filesystem::exists(path / "config.yaml")) return path.lexically_normal();
  }
  throw std::runtime_error("no reference run named " + name);
}

}  // namespace tessera::test
