#include "tessera/launcher/msrun_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/launcher/flag_hint.h"

namespace tessera {
namespace {

constexpr int kMostLocalWorkers = 8;
constexpr int kFirstPort = 1024;
constexpr int kLastPort = 65535;

// As text where the reference takes more than one type.
struct RawFlags {
  int local_worker_num = 0;
  std::string join = "False";
  std::string tail_worker_log;
  int sim_level = -1;
  int sim_rank_id = -1;
  std::string rank_table_file;
};

bool is_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

// The flags as "--flag=value" each; what follows them goes to `script`. Every flag takes a value.
std::vector<std::string> split_at_script(const std::vector<std::string>& arguments,
                                         std::vector<std::string>& script) {
  std::vector<std::string> flags;
  size_t i = 0;
  while (i < arguments.size() && arguments[i].starts_with("-")) {
    const std::string& argument = arguments[i];
    const bool complete = is_help(argument) || argument.find('=') != std::string::npos;
    if (complete || i + 1 == arguments.size()) {
      flags.push_back(argument);
      i += 1;
    } else {
      flags.push_back(argument + "=" + arguments[i + 1]);
      i += 2;
    }
  }
  script.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return flags;
}

bool parse_bool(const std::string& flag, const std::string& value, std::string& problems) {
  const std::string lower = CLI::detail::to_lower(value);
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
    if (!CLI::detail::lexical_cast(item, worker) || worker < 0 || worker >= local_workers) {
      problems += "\n--tail_worker_log=" + value + ": must be -1 (all) or local workers 0 to " +
                  std::to_string(local_workers - 1) + " with commas between";
      return {};
    }
    result.push_back(worker);
  }
  return result;
}

void check(const MsrunFlags& flags, const RawFlags& raw, std::string& problems) {
  const auto refuse = [&](const std::string& flag, const auto& value, const std::string& rule) {
    std::ostringstream text;
    text << "\n--" << flag << "=" << value << ": " << rule;
    problems += text.str();
  };
  if (flags.worker_num < 1) refuse("worker_num", flags.worker_num, "must be at least 1");
  if (flags.local_worker_num < 1 || flags.local_worker_num > flags.worker_num) {
    refuse("local_worker_num", flags.local_worker_num,
           "must be 1 to worker_num (" + std::to_string(flags.worker_num) + ")");
  }
  if (flags.master_port < kFirstPort || flags.master_port > kLastPort) {
    refuse("master_port", flags.master_port, "must be 1024 to 65535");
  }
  if (flags.node_rank < -1) refuse("node_rank", flags.node_rank, "must be -1 or a node from 0 on");
  if (flags.node_rank >= 0 &&
      static_cast<int64_t>(flags.node_rank + 1) * flags.local_worker_num > flags.worker_num &&
      flags.local_worker_num != flags.worker_num) {
    refuse("node_rank", flags.node_rank,
           std::to_string(flags.worker_num) + " workers, " +
               std::to_string(flags.local_worker_num) + " a node, make nodes 0 to " +
               std::to_string(flags.worker_num / std::max(1, flags.local_worker_num) - 1));
  }
  if (flags.cluster_time_out < 1) {
    refuse("cluster_time_out", flags.cluster_time_out, "must be at least 1 second");
  }
  if (raw.sim_level != -1) {
    refuse("sim_level", raw.sim_level, "a run without devices is `tessera plan`");
  }
  if (raw.sim_rank_id != -1) {
    refuse("sim_rank_id", raw.sim_rank_id, "a run without devices is `tessera plan`");
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
  std::vector<std::string> given = split_at_script(arguments, flags.script);

  CLI::App app("Starts the workers of a run on this node, watches them and ends them together.",
               program);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--worker_num", flags.worker_num, "workers of the run: the world size")
      ->capture_default_str();
  CLI::Option* local = app.add_option("--local_worker_num", raw.local_worker_num,
                                      "workers of this node (default: worker_num, at most 8)");
  app.add_option("--master_addr", flags.master_addr, "IPv4 address or name of node 0")
      ->capture_default_str();
  app.add_option("--master_port", flags.master_port, "port on node 0")->capture_default_str();
  app.add_option("--node_rank", flags.node_rank, "this node; -1: by the order of arrival")
      ->capture_default_str();
  app.add_option("--log_dir", flags.log_dir, "folder of worker_<rank>.log, made if missing")
      ->capture_default_str();
  app.add_option("--join", raw.join, "True: wait for the workers; False: leave them running")
      ->capture_default_str();
  app.add_option("--cluster_time_out", flags.cluster_time_out, "seconds for all nodes to join")
      ->capture_default_str();
  app.add_option("--bind_core", flags.bind_core,
                 "True: cores in equal shares; or {\"device0\": [\"0-10\"], ...}")
      ->capture_default_str();
  app.add_option("--worker_log_name", flags.worker_log_name,
                 "log name before _<rank>.log; may hold {ip} and {hostname}")
      ->capture_default_str();
  CLI::Option* tail = app.add_option(
      "--tail_worker_log", raw.tail_worker_log,
      "local workers whose logs are shown, -1: all (default: rank 0); needs --join=True");
  app.add_option("--sim_level", raw.sim_level, "refused: see `tessera plan`");
  app.add_option("--sim_rank_id", raw.sim_rank_id, "refused: see `tessera plan`");
  CLI::Option* table =
      app.add_option("--rank_table_file", raw.rank_table_file, "accepted, without effect");
  app.footer(
      "Then follow the script and its arguments. With --join=True the exit code is that of the\n"
      "worker that failed first (3 where a signal killed it), or 128 + n after signal n.\n\n"
      "Examples:\n  " +
      program +
      " --worker_num=8 --local_worker_num=8 --master_port=8118 --join=True \\\n"
      "      run_mindformer.py --config x.yaml --mode 1\n  " +
      program +
      " --worker_num=16 --local_worker_num=8 --master_addr=node0 --node_rank=1 --join=True \\\n"
      "      run_mindformer.py --config x.yaml --mode 1");

  if (std::any_of(given.begin(), given.end(), is_help)) {
    flags.help = app.help();
    return flags;
  }
  std::reverse(given.begin(), given.end());  // what CLI11 expects of a vector
  try {
    app.parse(given);
  } catch (const CLI::ExtrasError& error) {
    std::reverse(given.begin(), given.end());
    throw ConfigError(program + ": " + error.what() + unknown_flag_hint(app, given));
  } catch (const CLI::ParseError& error) {
    throw ConfigError(program + ": " + error.what() + " (see " + program + " --help)");
  }

  std::string problems;
  flags.local_worker_num =
      local->count() > 0 ? raw.local_worker_num : std::min(kMostLocalWorkers, flags.worker_num);
  flags.join = parse_bool("--join", raw.join, problems);
  if (tail->count() > 0) {
    flags.tail_worker_log = parse_tail(raw.tail_worker_log, flags.local_worker_num, problems);
  }
  if (table->count() > 0 && !raw.rank_table_file.empty()) {
    flags.no_effect.push_back("--rank_table_file");
  }
  check(flags, raw, problems);
  if (!problems.empty()) throw ConfigError(program + ": the flags are wrong" + problems);
  return flags;
}

}  // namespace tessera
