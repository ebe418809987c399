#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// Runs `body` and returns its exit code. Standard streams that the caller closed lead to
/// /dev/null, here and in what is started. An Error is written to standard error, once, and its
/// code returned; any other exception counts as internal (1).
int run_program(const std::function<int()>& body);

/// argv without the program's name.
std::vector<std::string> arguments_of(int argc, char** argv);

}  // namespace tessera
