#include "tessera/launcher/launch.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/flags/msrun_flags.h"
#include "tessera/launcher/flags/script_arguments.h"
#include "tessera/launcher/hosts/cpu_binding.h"
#include "tessera/launcher/hosts/host_facts.h"
#include "tessera/launcher/hosts/port.h"
#include "tessera/launcher/preflight.h"
#include "tessera/launcher/program_path.h"
#include "tessera/launcher/rendezvous.h"
#include "tessera/launcher/run_starts.h"
#include "tessera/launcher/subprocess.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/search/fewer_ranks.h"
#include "tessera/planner/search/search.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScript = "run_mindformer.py";
constexpr const char* kWatcherVariable = "TESSERA_WATCHER";  // set in the process left behind

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string host_address() {
  try {
    return resolve(host_name());
  } catch (const ConfigError&) {
    return "127.0.0.1";
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// A start again leaves the log of the one before: worker_3.log, then worker_3.start_2.log.
std::string log_path(const MsrunFlags& flags, const fs::path& folder, int rank,
                     int64_t generation) {
  std::string name = flags.worker_log_name;
  name = replaced(name, "{hostname}", host_name());
  if (name.find("{ip}") != std::string::npos) name = replaced(name, "{ip}", host_address());
  name += "_" + std::to_string(rank);
  if (generation > 1) name += ".start_" + std::to_string(generation);
  return (folder / (name + ".log")).string();
}

fs::path make_log_folder(const MsrunFlags& flags) {
  std::error_code error;
  const fs::path folder = fs::absolute(flags.log_dir).lexically_normal();
  fs::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0) {
    throw ConfigError("--log_dir " + flags.log_dir + " is not a folder to write to");
  }
  return folder;
}

ScriptArguments read_script(const MsrunFlags& flags, const std::string& program) {
  const std::string name = fs::path(flags.script.front()).filename();
  if (name != kScript && name != "train") {
    throw ConfigError(program + " runs " + kScript + " (the program beside it), not " +
                      flags.script.front());
  }
  return parse_script_arguments({flags.script.begin() + 1, flags.script.end()});
}

// One node: no other launcher to meet.
NodeAssignment single_node(const MsrunFlags& flags) {
  if (!owns_address(flags.master_addr)) {
    throw ConfigError("--master_addr " + flags.master_addr +
                      " is not an address of this machine, which has all workers (local_worker_num "
                      "= worker_num)");
  }
  NodeAssignment assignment;
  assignment.claim = std::make_unique<PortClaim>(
      flags.master_addr, flags.master_port, "--master_port", port_patience(flags.max_restarts));
  assignment.job_id = new_job_id();
  assignment.max_restarts = flags.max_restarts;
  return assignment;
}

NodeAssignment assign(const MsrunFlags& flags, const EarlierStart& earlier,
                      const std::function<StartLayout(int)>& layout,
                      std::unique_ptr<PortClaim> claim) {
  if (flags.local_worker_num == flags.worker_num) return single_node(flags);
  NodeRequest request;
  request.worker_num = flags.worker_num;
  request.local_worker_num = flags.local_worker_num;
  request.master_addr = flags.master_addr;
  request.master_port = flags.master_port;
  request.node_rank = flags.node_rank;
  request.timeout_seconds = flags.cluster_time_out;
  request.secret = JobSecret::of(process_environment());
  request.max_restarts = flags.max_restarts;
  request.heartbeat.timeout = std::chrono::seconds(flags.heartbeat_timeout);
  request.earlier = earlier;
  if (flags.least_nodes > 0) {
    request.least_workers = flags.least_nodes * flags.local_worker_num;
    request.layout = layout;
  }
  return join_nodes(request, std::move(claim));
}

// Bytes that a rank of `used` may have: of the machine's file, else an even part of this host.
double memory_of_rank(const MsrunFlags& flags, int64_t used) {
  if (const std::optional<Machine> machine = find_machine({})) {
    return memory_limit(*machine, {}, used);
  }
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE)) / flags.local_worker_num;
}

// What `present` workers do of a file that is for all of them.
StartLayout layout_of(const MsrunFlags& flags, const Preflight& checked, int present) {
  const auto fits = [&](const Config& made, int64_t used) {
    return peak_memory(made, used, /*processes=*/true) <= memory_of_rank(flags, used);
  };
  const Config& config = checked.config;
  const auto found = layout_of_fewer(config, flags.worker_num, present, checked.provenance, fits);
  if (!found) {
    const ParallelismConfig& p = config.parallelism;
    throw CommError(std::to_string(present) + " of " + std::to_string(flags.worker_num) +
                    " workers are there: too few for pipeline_parallel " +
                    std::to_string(p.pipeline_parallel) + " x context_parallel " +
                    std::to_string(p.context_parallel) + " x tensor_parallel " +
                    std::to_string(p.tensor_parallel) +
                    ", or not enough memory, and no layout of " + "elastic.layouts goes");
  }
  return {static_cast<int>(found->used), layout_overrides(config, found->config),
          layout_text(found->config, found->used)};
}

int workers_of_run(const MsrunFlags& flags, const NodeAssignment& assignment) {
  return assignment.layout.used > 0 ? assignment.layout.used : flags.worker_num;
}

// Those of this node that have a place in the layout; the others are spare.
int workers_of_node(const MsrunFlags& flags, const NodeAssignment& assignment) {
  return std::clamp(workers_of_run(flags, assignment) - assignment.first_rank, 0,
                    flags.local_worker_num);
}

std::map<std::string, std::string> worker_variables(const MsrunFlags& flags,
                                                    const NodeAssignment& assignment,
                                                    const std::vector<Restart>& restarts, int local,
                                                    int threads) {
  const std::string rank = std::to_string(assignment.first_rank + local);
  const std::string world = std::to_string(workers_of_run(flags, assignment));
  const std::string port = std::to_string(flags.master_port);
  std::map<std::string, std::string> variables = {
      {"RANK", rank},
      {"WORLD_SIZE", world},
      {"LOCAL_RANK", std::to_string(local)},
      {"LOCAL_WORLD_SIZE", std::to_string(workers_of_node(flags, assignment))},
      {"MASTER_ADDR", flags.master_addr},
      {"MASTER_PORT", port},
      {"TORCHELASTIC_USE_AGENT_STORE", ""},  // of a torchrun around this msrun
      {"TESSERA_JOB_ID", assignment.job_id},
      {"TESSERA_GENERATION", std::to_string(assignment.generation)},
      {kRestartsVariable, to_text(restarts)},
      {"MS_ROLE", "MS_WORKER"},
      {"MS_SCHED_HOST", flags.master_addr},
      {"MS_SCHED_PORT", port},
      {"MS_WORKER_NUM", world},
      {"MS_TOPO_TIMEOUT", std::to_string(flags.cluster_time_out)},
      {"RANK_SIZE", world},
      {"RANK_ID", rank}};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables["OMP_NUM_THREADS"] = std::to_string(threads);
  }
  return variables;
}

bool shows_log(const MsrunFlags& flags, int rank, int local) {
  if (!flags.join) return false;
  if (!flags.tail_worker_log) return rank == 0;
  const std::vector<int>& wanted = *flags.tail_worker_log;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), local) != wanted.end();
}

std::vector<Worker> make_workers(const MsrunFlags& flags, const ScriptArguments& script,
                                 const NodeAssignment& assignment,
                                 const std::vector<Restart>& restarts, const fs::path& log_folder) {
  const std::vector<int> cpus = allowed_cpus();
  const auto cores = bind_cores(flags.bind_core, flags.local_worker_num, cpus);
  const int share =
      std::max(1, usable_cores(own_host_facts(/*devices=*/0)) / flags.local_worker_num);
  ScriptArguments told = script;
  for (const std::string& change : assignment.layout.overrides) told.overrides.push_back(change);
  const int count = workers_of_node(flags, assignment);
  if (workers_of_run(flags, assignment) < flags.worker_num) {
    log_info(
        std::to_string(workers_of_run(flags, assignment)) + " of " +
        std::to_string(flags.worker_num) + " workers run: " + assignment.layout.text +
        (count < flags.local_worker_num
             ? "; " + std::to_string(flags.local_worker_num - count) + " of this node are spare"
             : ""));
  }
  std::vector<Worker> workers;
  int shown = 0;
  for (int local = 0; local < count; ++local) {
    Worker worker;
    worker.rank = assignment.first_rank + local;
    worker.program.argv = engine_command(told);
    worker.program.cpus = cores[static_cast<size_t>(local)];
    const int bound = static_cast<int>(worker.program.cpus.size());
    const int threads = bound == 0 ? share : bound;
    worker.program.environment = worker_variables(flags, assignment, restarts, local, threads);
    worker.program.output = log_path(flags, log_folder, worker.rank, assignment.generation);
    worker.echo = shows_log(flags, worker.rank, local);
    worker.prefix = "[" + std::to_string(worker.rank) + "] ";
    shown += worker.echo ? 1 : 0;
    workers.push_back(std::move(worker));
  }
  if (shown == 1) {
    for (Worker& worker : workers) worker.prefix.clear();
  }
  return workers;
}

// --join=False: the same program again, in a session of its own, watches the workers.
int leave_watcher(const MsrunFlags& flags, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& prefix, const fs::path& log_folder) {
  if (flags.local_worker_num == flags.worker_num) single_node(flags);  // refused here, not there
  Subprocess watcher;
  watcher.argv = {program_path()};
  watcher.argv.insert(watcher.argv.end(), prefix.begin(), prefix.end());
  watcher.argv.insert(watcher.argv.end(), arguments.begin(), arguments.end());
  watcher.environment[kWatcherVariable] = "1";
  watcher.output = (log_folder / "scheduler.log").string();
  watcher.dies_with_parent = false;
  watcher.new_session = true;
  const pid_t pid = start(watcher);
  log_info(std::to_string(flags.local_worker_num) +
           " workers start in the background, watched by process " + std::to_string(pid) +
           "; its log: " + watcher.output);
  return 0;
}

}  // namespace

int run_msrun(const std::vector<std::string>& arguments, const std::string& program,
              const std::vector<std::string>& prefix) {
  const MsrunFlags flags = parse_msrun(arguments, program);
  if (!flags.help.empty()) {
    std::cout << flags.help;
    return 0;
  }
  ScriptArguments script = read_script(flags, program);
  if (script.help) {
    std::cout << script_help();
    return 0;
  }
  std::vector<std::string> no_effect = flags.no_effect;
  no_effect.insert(no_effect.end(), script.no_effect.begin(), script.no_effect.end());
  name_without_effect(no_effect);

  PreflightOptions options;
  options.world = flags.worker_num;
  options.ranks_per_node = flags.local_worker_num;
  Preflight checked = preflight(script.config, script.overrides, options);
  if (flags.least_nodes > 0 && checked.config.elastic.layouts.empty()) {
    script.overrides.push_back("elastic.layouts=[{}]");  // the batch is kept on every layout
    checked = preflight(script.config, script.overrides, options);
  }
  report_or_throw(checked, script.config);
  bind_cores(flags.bind_core, flags.local_worker_num, allowed_cpus());
  const fs::path log_folder = make_log_folder(flags);
  if (!flags.join && std::getenv(kWatcherVariable) == nullptr) {
    return leave_watcher(flags, arguments, prefix, log_folder);
  }
  StartPlan plan;
  plan.meet = [&](const EarlierStart& earlier, std::unique_ptr<PortClaim> claim) {
    const auto layout = [&](int present) { return layout_of(flags, checked, present); };
    return assign(flags, earlier, layout, std::move(claim));
  };
  plan.workers = [&](const NodeAssignment& assignment, const std::vector<Restart>& restarts) {
    return make_workers(flags, script, assignment, restarts, log_folder);
  };
  plan.group.launcher = program;
  plan.group.standstill = std::chrono::milliseconds(
      static_cast<int64_t>(1e3 * checked.config.training.timeout_seconds));
  plan.group.grace = std::chrono::seconds(flags.grace);
  return run_starts(plan);
}

}  // namespace tessera
