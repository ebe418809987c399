#pragma once

// Ranks as processes. They meet over c10d's TCPStore; messages go through shared memory where all
// ranks are on one host, through Gloo (TCP) where they are not, and between devices over NCCL.

#include <string>

#include "tessera/comm/process_group.h"

namespace tessera {

struct ProcessWorldOptions {
  int rank = 0;
  int world = 1;
  std::string master_addr;  // rank 0 serves the store there
  int master_port = 0;
  std::string job;               // part of every key, so that two jobs never meet in one store
  double timeout_seconds = 600;  // of the meeting and of every collective
  bool shared_memory = true;     // false: Gloo on one host, too
  at::Device device = at::kCPU;  // of this rank
};

/// Meets the other ranks. Throws CommError: port busy, ranks that did not come (named).
ProcessGroup join_process_world(const ProcessWorldOptions& options);

}  // namespace tessera
