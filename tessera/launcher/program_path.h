#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// The running program, links resolved.
std::filesystem::path program_path();

/// The program `name` in the folder of the running one, whatever lies on PATH or in the working
/// directory. Throws ConfigError when it is not there.
std::filesystem::path sibling_program(const std::string& name);

}  // namespace tessera
