#include "tessera/launcher/engine.h"

#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/subprocess.h"

namespace tessera {

WorldOfProcess world_of_process(std::optional<int64_t> ranks) {
  if (ranks && *ranks < 1) {
    throw ConfigError("--ranks " + std::to_string(*ranks) + " must be at least 1");
  }
  WorldOfProcess result;
  result.worker = read_worker_environment(process_environment());
  if (ranks) {
    if (result.worker && result.worker->world > 1) {
      throw ConfigError("--ranks makes ranks of this one process, which is rank " +
                        std::to_string(result.worker->rank) + " of " +
                        std::to_string(result.worker->world) + " of a launcher (" +
                        result.worker->source + "): leave --ranks out");
    }
    result.worker.reset();
    result.world = *ranks;
  } else if (result.worker) {
    result.world = result.worker->world;
  }
  return result;
}

Preflight check_before_engine(const std::string& config, const std::vector<std::string>& overrides,
                              const WorldOfProcess& world) {
  PreflightOptions options;
  options.world = world.world;
  if (world.worker) options.ranks_per_node = world.worker->local_world;
  Preflight checked = preflight(config, overrides, options);
  if (world.reports_for_all()) {
    report_or_throw(checked, config);
  } else if (!checked.ok()) {
    throw ConfigError(config + " was refused (rank 0 says why)");
  }
  return checked;
}

void become_engine(const std::vector<std::string>& command, const WorldOfProcess& world) {
  if (std::error_code error; std::filesystem::current_path(error).empty()) {
    throw ConfigError("the working directory is not there any more: " + error.message());
  }
  if (world.worker) {
    const WorkerEnvironment& worker = *world.worker;
    const auto set = [](const char* name, const std::string& value) {
      ::setenv(name, value.c_str(), 1);
    };
    set("RANK", std::to_string(worker.rank));
    set("WORLD_SIZE", std::to_string(worker.world));
    set("LOCAL_RANK", std::to_string(worker.local_rank));
    set("LOCAL_WORLD_SIZE", std::to_string(worker.local_world));
    set("MASTER_ADDR", worker.master_addr);
    set("MASTER_PORT", std::to_string(worker.master_port));
    set("TESSERA_JOB_ID", worker.job_id);
    set("TESSERA_GENERATION", std::to_string(worker.generation));
    ::unsetenv(
        "TORCHELASTIC_USE_AGENT_STORE");  // MASTER_PORT is no longer that of torchrun's store
  } else {
    // Thread ranks: a launcher's variables around this process are not for it.
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
      ::unsetenv(name);
    }
  }
  replace_program(command);
}

void name_without_effect(const std::vector<std::string>& flags) {
  if (flags.empty()) return;
  std::string text = "without effect here:";
  for (const std::string& flag : flags) text += " " + flag;
  log_info(text);
}

}  // namespace tessera
