#include "tessera/launcher/program_path.h"

#include <unistd.h>

#include "tessera/base/error.h"

namespace tessera {

std::filesystem::path program_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::filesystem::path sibling_program(const std::string& name) {
  const std::filesystem::path path = program_path().parent_path() / name;
  if (::access(path.c_str(), X_OK) != 0) {
    throw ConfigError("the program " + path.string() + " is missing: build or install it");
  }
  return path;
}

}  // namespace tessera
