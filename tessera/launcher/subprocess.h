#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace tessera {

/// A program to start. Standard input is /dev/null; standard output and error go to `output`.
struct Subprocess {
  std::vector<std::string> argv;                   // argv[0]: the program's path
  std::map<std::string, std::string> environment;  // on top of the caller's; replaces
  std::string output;            // file, truncated; empty: the caller's own streams
  std::vector<int> cpus;         // bound to these; empty: not bound
  bool dies_with_parent = true;  // SIGKILL when the thread that started it ends
  bool new_session = false;      // else: leader of a process group of its own
};

/// Starts it and returns its process id, which is also its process group. The child does nothing
/// but system calls before exec. Throws ConfigError when the file, the program or the binding does
/// not work.
pid_t start(const Subprocess& subprocess);

/// Replaces the running program. Returns only by throwing ConfigError.
[[noreturn]] void replace_program(const std::vector<std::string>& argv);

}  // namespace tessera
