#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tessera {

/// What a process launcher told this process through its environment.
struct WorkerEnvironment {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t local_rank = 0;
  int64_t local_world = 0;  // workers of this host, for the check of the file; 0: not told
  std::string master_addr = "127.0.0.1";
  int master_port = 8118;
  std::string job_id;      // distinguishes runs that use the same port; may be empty
  int64_t generation = 0;  // which start of the run this is, from 1; 0: nobody counts
  std::string source;      // "RANK, WORLD_SIZE": the variables that said so
};

/// Reads a variable: a value, or none when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// The environment of this process.
Environment process_environment();

/// RANK and WORLD_SIZE (msrun, torchrun), else those of a Slurm step (srun), else Open MPI's or
/// MPICH's (mpirun). None when this process is no worker. Without MASTER_ADDR the first node of the
/// Slurm step, or for one host 127.0.0.1, is taken. Where torchrun itself serves a store at
/// MASTER_PORT, the port after it is taken for ours. Throws ConfigError when a variable that is
/// needed is missing, not a number, or out of range.
std::optional<WorkerEnvironment> read_worker_environment(const Environment& environment);

}  // namespace tessera
