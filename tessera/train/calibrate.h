#pragma once

// What this machine does in a second, measured without a model.

#include <optional>
#include <string>

#include "tessera/launcher/worker_environment.h"
#include "tessera/planner/machine/machine.h"

namespace tessera {

struct CalibrateOptions {
  std::string output;                       // the machine file to write; empty: the default place
  std::string worker_result;                // of a worker: where it writes what rank 0 measured
  std::optional<WorkerEnvironment> worker;  // one of the processes that this program starts
};

/// Products, attention, memory, calls, ranks that share cores, and collectives of threads and of
/// processes, for about half a minute. Writes the file and returns a text about it. A worker takes
/// part in the collectives of its group only and returns nothing.
std::string calibrate(const CalibrateOptions& options);

/// Compute and memory of one rank that has all cores, of ranks that share them, and collectives
/// among threads.
Machine measure_machine(int cores);

}  // namespace tessera
