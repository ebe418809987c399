#pragma once

// What a process finds out about its machine, and what the ranks of a run conclude from all of
// theirs. Launchers' variables are not asked: each sets others, or none.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// A limit on processor time of a control group (cgroup v1 or v2), as containers have.
struct CpuQuota {
  double cores = 0.0;  // 0: none
  std::string group;   // whose limit it is
};

struct HostFacts {
  std::string machine;    // one running kernel
  std::string container;  // the processes of the machine that see each other
  std::vector<int> cpus;  // cores that this process may use, ascending
  CpuQuota quota;
  int devices = 0;  // CUDA devices that this process sees
};

/// The tightest limit on this process; `root` is / but in tests.
CpuQuota cpu_quota(const std::string& root = "/");

/// Of this process; it sees `devices` CUDA devices.
HostFacts own_host_facts(int devices);

/// Cores that a process with these facts alone may keep busy, at least 1.
int usable_cores(const HostFacts& facts);

/// Threads for rank `rank`, whose facts are facts[rank]: each core is divided among the ranks of
/// its machine that may use it, a quota among the ranks of its group. At least 1.
int fair_threads(const std::vector<HostFacts>& facts, int rank);

/// Threads of one operator of one rank: OMP_NUM_THREADS, else `fair`, its part of the cores.
int threads_or(int fair);

/// The place of rank `rank` among the ranks of its container.
struct HostPlace {
  int local_rank = 0;
  int local_ranks = 1;
};
HostPlace place_on_host(const std::vector<HostFacts>& facts, int rank);

// One line of text; host_facts() throws CommError when it is none.
std::string to_text(const HostFacts& facts);
HostFacts host_facts(const std::string& text);

}  // namespace tessera
