#pragma once

#include <chrono>
#include <string>

#include "tests/launcher/temporary_folder.h"

namespace tessera {

struct CommandResult {
  int code = -1;  // 128 + n when signal n ended it
  std::string out;
  std::string err;
};

/// Runs a shell command in `folder`, for at most two minutes.
CommandResult run_command(const std::string& command, const std::string& folder);

/// The folder of the programs under test.
std::string programs();

/// A port that nobody listened on a moment ago.
int free_port();

}  // namespace tessera
