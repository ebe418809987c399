#include "tessera/train/calibrate.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/processes/process_world.h"
#include "tessera/launcher/hosts/host_facts.h"
#include "tessera/launcher/program_path.h"
#include "tessera/launcher/subprocess.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/train/time_collectives.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// The part of a worker.
void measure_with_others(const CalibrateOptions& options) {
  const WorkerEnvironment& worker = *options.worker;
  ProcessWorldOptions world;
  world.rank = static_cast<int>(worker.rank);
  world.world = static_cast<int>(worker.world);
  world.master_addr = worker.master_addr;
  world.master_port = worker.master_port;
  world.job = worker.job_id;
  world.timeout_seconds = 120;
  const ProcessGroup group = join_process_world(world);
  Machine machine;
  machine.collectives = time_collectives(group, "processes");
  if (worker.rank == 0) std::ofstream(options.worker_result) << machine_yaml(machine);
}

// Starts `ranks` processes of this program, which measure among themselves.
std::vector<CollectiveTimes> among_processes(int ranks, const fs::path& folder) {
  const std::string result = (folder / ("processes_" + std::to_string(ranks))).string();
  std::vector<pid_t> processes;
  // Any port of a range that depends on this process; two calibrations at once do not meet.
  const int port = 20000 + static_cast<int>(getpid()) % 20000 + ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    Subprocess worker;
    worker.argv = {program_path().string(), "calibrate", "--worker-result", result};
    worker.environment = {{"RANK", std::to_string(rank)},
                          {"WORLD_SIZE", std::to_string(ranks)},
                          {"LOCAL_RANK", std::to_string(rank)},
                          {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", std::to_string(port)},
                          {"TESSERA_JOB_ID", "calibrate " + std::to_string(getpid())}};
    processes.push_back(start(worker));
  }
  bool failed = false;
  for (const pid_t process : processes) {
    int status = 0;
    failed = waitpid(process, &status, 0) < 0 || status != 0 || failed;
  }
  if (failed) throw CommError("calibrate: a process of the measurement failed; its error is above");
  // A file of collectives alone: what is missing elsewhere does not count.
  return read_machine({result}).machine.collectives;
}

double disk_bandwidth(const fs::path& folder) {
  constexpr size_t kBytes = size_t{1} << 26;
  const std::vector<char> bytes(kBytes, 'x');
  const fs::path path = folder / "disk";
  const auto begin = std::chrono::steady_clock::now();
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  sync();
  if (!file) throw ConfigError("cannot write " + path.string());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return kBytes / took.count();
}

}  // namespace

std::string calibrate(const CalibrateOptions& options) {
  if (options.worker && !options.worker_result.empty()) {
    measure_with_others(options);
    return "";
  }
  const std::string output = options.output.empty() ? default_machine_path() : options.output;
  if (output.empty()) throw ConfigError("--output is needed: there is no home folder");
  const fs::path folder = fs::absolute(output).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw ConfigError("cannot make the folder " + folder.string() + ": " + error.message());
  const fs::path temporary = folder / ("calibrate_" + std::to_string(getpid()));
  fs::create_directories(temporary);

  const auto begin = std::chrono::steady_clock::now();
  Machine machine = measure_machine(usable_cores(own_host_facts(0)));
  machine.host = machine_description();
  machine.name = machine.host;
  machine.memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  for (const int ranks : {2, 4, 8}) {
    const std::vector<CollectiveTimes> rows = among_processes(ranks, temporary);
    machine.collectives.insert(machine.collectives.end(), rows.begin(), rows.end());
  }
  machine.disk_bandwidth = disk_bandwidth(temporary);
  fs::remove_all(temporary);

  std::ofstream file(output, std::ios::binary);
  file << machine_yaml(machine);
  file.close();
  if (!file) throw ConfigError("cannot write " + output);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return "wrote " + output + " in " + std::to_string(static_cast<int>(took.count())) +
         " s: float32 products " +
         std::to_string(static_cast<int>(machine.rates(DType::kFloat32).peak / 1e9)) +
         " GFLOP/s on " + std::to_string(machine.cores) + " cores, memory " +
         std::to_string(static_cast<int>(machine.memory_bandwidth / 1e9)) + " GB/s\n";
}

}  // namespace tessera
