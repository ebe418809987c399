#pragma once

// Ranks as processes. They meet over c10d's TCPStore; messages go through shared memory where all
// ranks are on one host, through Gloo (TCP) where they are not, and between devices over NCCL.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/launcher/hosts/host_facts.h"
#include "tessera/launcher/job_secret.h"
#include "tessera/launcher/rank_page.h"

namespace tessera {

struct ProcessWorldOptions {
  int rank = 0;
  int world = 1;
  std::string master_addr;  // rank 0 serves the store there
  int master_port = 0;
  std::string job;                 // part of every key, so that two jobs never meet in one store
  double timeout_seconds = 600;    // of the meeting and of every collective
  bool shared_memory = true;       // false: Gloo on one host, too
  JobSecret secret;                // asked of every rank, if it is set
  std::shared_ptr<RankPage> page;  // tells the launcher whom this rank waits for, or null
  /// Gets the facts of the hosts of all ranks, by rank, when they have met; returns the device of
  /// this rank. Empty: the CPU.
  std::function<at::Device(const std::vector<HostFacts>&)> choose_device;
};

/// Meets the other ranks. Throws CommError: port busy, ranks that did not come (named).
ProcessGroup join_process_world(const ProcessWorldOptions& options);

}  // namespace tessera
