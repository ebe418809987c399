#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// The command line of msrun: flags, then the script and its arguments.
struct MsrunFlags {
  int worker_num = 8;
  int local_worker_num = 8;  // not given: 8, or worker_num if that is less
  std::string master_addr = "127.0.0.1";
  int master_port = 8118;
  int node_rank = -1;
  int least_nodes = 0;  // --nnodes=MIN:MAX; 0: all nodes must be there
  std::string log_dir = ".";
  bool join = false;
  int cluster_time_out = 600;  // seconds
  int max_restarts = 0;        // in an hour
  int heartbeat_timeout = 10;  // seconds
  int grace = 0;               // seconds after a signal; 0: no limit
  std::string bind_core = "False";
  std::string worker_log_name = "worker";
  std::optional<std::vector<int>> tail_worker_log;  // local workers; empty: all. Not given: rank 0

  std::vector<std::string> script;     // the script and its arguments
  std::vector<std::string> no_effect;  // flags that were given and change nothing here
  std::string help;                    // not empty: asked for, nothing else counts
};

/// `arguments` without the program's name; `program` is how help calls it. Flags are written
/// `--flag=value` or `--flag value`. Throws ConfigError with everything that is wrong.
MsrunFlags parse_msrun(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace tessera
