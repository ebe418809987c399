#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/launcher/preflight.h"
#include "tessera/launcher/worker_environment.h"

namespace tessera {

/// What this process will be: one rank, the host of thread ranks, or a worker of a launcher.
struct WorldOfProcess {
  int64_t world = 1;
  std::optional<WorkerEnvironment> worker;  // none: all ranks live in this process

  /// Whether this process writes what all workers would say alike.
  bool reports_for_all() const { return !worker || worker->rank == 0; }
};

/// From --ranks, if given, and the environment. Throws ConfigError when both say something, or
/// --ranks is not positive.
WorldOfProcess world_of_process(std::optional<int64_t> ranks);

/// The checks before tessera-engine takes over; warnings and errors are written by the worker that
/// reports for all. Throws ConfigError with all errors (to the others with one line).
Preflight check_before_engine(const std::string& config, const std::vector<std::string>& overrides,
                              const WorldOfProcess& world);

/// Becomes the engine. A worker finds RANK, WORLD_SIZE, ..., MASTER_PORT and TESSERA_JOB_ID in its
/// environment, whatever launcher started it. Returns only by throwing ConfigError.
[[noreturn]] void become_engine(const std::vector<std::string>& command,
                                const WorldOfProcess& world);

/// One line that names flags which are accepted and change nothing.
void name_without_effect(const std::vector<std::string>& flags);

}  // namespace tessera
