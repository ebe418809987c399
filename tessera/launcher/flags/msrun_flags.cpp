#include "tessera/launcher/flags/msrun_flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/launcher/flags/flags.h"

namespace tessera {
namespace {

constexpr int kMostLocalWorkers = 8;
constexpr int kFirstPort = 1024;
constexpr int kLastPort = 65535;

// As text where the reference takes more than one type.
struct RawFlags {
  std::optional<int64_t> local_worker_num;
  std::string nnodes;
  std::string join = "False";
  std::string tail_worker_log;
  std::optional<int64_t> sim_level;
  std::optional<int64_t> sim_rank_id;
  std::string rank_table_file;
};

std::vector<Flag> flags_of(MsrunFlags& flags, RawFlags& raw) {
  return {
      {.name = "--worker_num",
       .value = "N",
       .help = "workers of the run: the world size",
       .target = &flags.worker_num,
       .least = 1},
      {.name = "--local_worker_num",
       .value = "N",
       .help = "workers of this node (without: worker_num, at most 8)",
       .target = &raw.local_worker_num,
       .least = 1,
       .most = std::numeric_limits<int>::max()},
      {.name = "--master_addr",
       .value = "HOST",
       .help = "IPv4 address or name of node 0",
       .target = &flags.master_addr},
      {.name = "--master_port",
       .value = "PORT",
       .help = "port on node 0",
       .target = &flags.master_port,
       .least = kFirstPort,
       .most = kLastPort},
      {.name = "--node_rank",
       .value = "N",
       .help = "this node; -1: by the order of arrival",
       .target = &flags.node_rank,
       .least = -1},
      {.name = "--nnodes",
       .value = "MIN:MAX",
       .help = "goes on with MIN nodes of the MAX (worker_num / local_worker_num) that it is for",
       .target = &raw.nnodes},
      {.name = "--log_dir",
       .value = "FOLDER",
       .help = "folder of worker_<rank>.log, made if missing",
       .target = &flags.log_dir,
       .path = true},
      {.name = "--join",
       .value = "BOOL",
       .help = "True: wait for the workers; False: leave them running",
       .target = &raw.join},
      {.name = "--cluster_time_out",
       .value = "SECONDS",
       .help = "for all nodes to join",
       .target = &flags.cluster_time_out,
       .least = 1},
      {.name = "--max_restarts",
       .value = "N",
       .help =
           "a run that lost a worker or a node starts again, N times in an hour; node 0's counts",
       .target = &flags.max_restarts,
       .most = 1000},
      {.name = "--heartbeat_timeout",
       .value = "SECONDS",
       .help = "after which a launcher that says nothing counts as lost",
       .target = &flags.heartbeat_timeout,
       .least = 2,
       .most = 3600},
      {.name = "--grace",
       .value = "SECONDS",
       .help = "after SIGTERM, SIGINT or SIGUSR1: for the step and the checkpoint; 0: no limit",
       .target = &flags.grace,
       .most = 86400},
      {.name = "--bind_core",
       .value = "CORES",
       .help = "True: cores in equal shares; or {\"device0\": [\"0-10\"], ...}",
       .target = &flags.bind_core},
      {.name = "--worker_log_name",
       .value = "NAME",
       .help = "log name before _<rank>.log; may hold {ip} and {hostname}",
       .target = &flags.worker_log_name},
      {.name = "--tail_worker_log",
       .value = "WORKERS",
       .help = "local workers whose logs are shown, -1: all (without: rank 0); needs --join=True",
       .target = &raw.tail_worker_log},
      {.name = "--sim_level",
       .value = "N",
       .help = "refused: see `tessera plan`",
       .target = &raw.sim_level,
       .least = -1},
      {.name = "--sim_rank_id",
       .value = "N",
       .help = "refused: see `tessera plan`",
       .target = &raw.sim_rank_id,
       .least = -1},
      {.name = "--rank_table_file",
       .value = "FILE",
       .help = "accepted, without effect",
       .target = &raw.rank_table_file,
       .may_be_empty = true},
  };
}

bool parse_bool(const std::string& flag, const std::string& value, std::string& problems) {
  std::string lower = value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "1") return true;
  if (lower != "false" && lower != "0") {
    problems += "\n" + flag + "=" + value + ": must be True or False";
  }
  return false;
}

std::vector<int> parse_tail(const std::string& value, int local_workers, std::string& problems) {
  std::vector<int> result;
  if (value == "-1") return result;
  std::istringstream list(value);
  for (std::string item; std::getline(list, item, ',');) {
    int worker = -1;
    const char* end = item.data() + item.size();
    const auto [stop, error] = std::from_chars(item.data(), end, worker);
    if (error != std::errc() || stop != end || worker < 0 || worker >= local_workers) {
      problems += "\n--tail_worker_log=" + value + ": must be -1 (all) or local workers 0 to " +
                  std::to_string(local_workers - 1) + " with commas between";
      return {};
    }
    result.push_back(worker);
  }
  return result;
}

// "2:4", or "4" for exactly so many.
void parse_nodes(const std::string& value, MsrunFlags& flags, std::string& problems) {
  const size_t colon = value.find(':');
  const auto number = [&](const std::string& text, int& out) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, out);
    return error == std::errc() && stop == end && out >= 1;
  };
  int least = 0, most = 0;
  if (!number(value.substr(0, colon), least) ||
      !number(colon == std::string::npos ? value : value.substr(colon + 1), most) || least > most) {
    problems += "\n--nnodes=" + value + ": must be N or MIN:MAX, as 2:4";
    return;
  }
  if (int64_t{most} * flags.local_worker_num != flags.worker_num) {
    problems += "\n--nnodes=" + value + ": " + std::to_string(most) + " nodes of " +
                std::to_string(flags.local_worker_num) + " workers are not the " +
                std::to_string(flags.worker_num) + " of --worker_num";
    return;
  }
  if (least == most) return;  // all of them
  if (flags.max_restarts == 0) {
    problems += "\n--nnodes=" + value +
                " needs --max_restarts: a run goes on with fewer nodes by "
                "starting again";
  }
  flags.least_nodes = least;
}

void check(const MsrunFlags& flags, const RawFlags& raw, std::string& problems) {
  const auto refuse = [&](const std::string& flag, const auto& value, const std::string& rule) {
    std::ostringstream text;
    text << "\n--" << flag << "=" << value << ": " << rule;
    problems += text.str();
  };
  if (flags.local_worker_num > flags.worker_num) {
    refuse("local_worker_num", flags.local_worker_num,
           "must be 1 to worker_num (" + std::to_string(flags.worker_num) + ")");
  }
  if (flags.node_rank >= 0 &&
      (int64_t{flags.node_rank} + 1) * flags.local_worker_num > flags.worker_num &&
      flags.local_worker_num != flags.worker_num) {
    refuse("node_rank", flags.node_rank,
           std::to_string(flags.worker_num) + " workers, " +
               std::to_string(flags.local_worker_num) + " a node, make nodes 0 to " +
               std::to_string(flags.worker_num / flags.local_worker_num - 1));
  }
  if (raw.sim_level.value_or(-1) != -1) {
    refuse("sim_level", *raw.sim_level, "a run without devices is `tessera plan`");
  }
  if (raw.sim_rank_id.value_or(-1) != -1) {
    refuse("sim_rank_id", *raw.sim_rank_id, "a run without devices is `tessera plan`");
  }
  if (flags.tail_worker_log && !flags.join) {
    problems += "\n--tail_worker_log needs --join=True";
  }
  if (flags.script.empty()) {
    problems += "\nno script: msrun [flags] run_mindformer.py --config FILE --mode 1";
  }
}

}  // namespace

MsrunFlags parse_msrun(const std::vector<std::string>& arguments, const std::string& program) {
  MsrunFlags flags;
  RawFlags raw;
  const std::vector<Flag> list = flags_of(flags, raw);
  const std::string help = flag_help(
      program + " [flags] run_mindformer.py --config FILE --mode 1",
      "Starts the workers of a run on this node, watches them and ends them "
      "together.",
      list,
      "Then follow the script and its arguments. With --join=True the exit code is that of the\n"
      "worker that failed first (3 where a signal killed it), or 128 + n after signal n.\n\n"
      "Examples:\n  " +
          program +
          " --worker_num=8 --local_worker_num=8 --master_port=8118 --join=True \\\n"
          "      run_mindformer.py --config x.yaml --mode 1\n  " +
          program +
          " --worker_num=16 --local_worker_num=8 --master_addr=node0 --node_rank=1 --join=True \\\n"
          "      run_mindformer.py --config x.yaml --mode 1");
  FlagRules rules;
  rules.last_counts = true;
  rules.rest = &flags.script;
  const FlagProblems read = read_flags(list, arguments, rules);
  if (read.help) {
    flags.help = help;
    return flags;
  }
  std::string problems;
  for (const std::string& text : read.texts) problems += "\n" + text;
  flags.local_worker_num = raw.local_worker_num ? static_cast<int>(*raw.local_worker_num)
                                                : std::min(kMostLocalWorkers, flags.worker_num);
  flags.join = parse_bool("--join", raw.join, problems);
  if (!raw.tail_worker_log.empty()) {
    flags.tail_worker_log = parse_tail(raw.tail_worker_log, flags.local_worker_num, problems);
  }
  if (!raw.nnodes.empty()) parse_nodes(raw.nnodes, flags, problems);
  if (!raw.rank_table_file.empty()) flags.no_effect.push_back("--rank_table_file");
  check(flags, raw, problems);
  if (!problems.empty()) throw ConfigError(program + ": the flags are wrong" + problems);
  return flags;
}

}  // namespace tessera
