#pragma once

// What a launcher says of one of its workers.

#include <sys/types.h>

#include <string>

#include "tessera/launcher/worker_group.h"

namespace tessera {

/// Whether a signal or a debugger holds the process.
bool is_stopped(pid_t pid);

/// What an exit code means: "a peer or a link failed".
std::string meaning(int exit_code);

/// Where its log is and how that ends, in lines of their own.
std::string log_text(const Worker& worker);

/// What the threads of a process are in, in lines of their own, where a debugger is at hand; else
/// nothing. It may take some seconds.
std::string stack_text(pid_t pid);

}  // namespace tessera
