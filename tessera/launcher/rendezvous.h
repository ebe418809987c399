#pragma once

#include <memory>
#include <string>

#include "tessera/launcher/hosts/port.h"
#include "tessera/launcher/job_secret.h"
#include "tessera/launcher/worker_group.h"

namespace tessera {

/// What a launcher brings to a run over several nodes.
struct NodeRequest {
  int worker_num = 1;        // workers of the run
  int local_worker_num = 1;  // workers of this node
  std::string master_addr = "127.0.0.1";
  int master_port = 8118;
  int node_rank = -1;         // -1: given by the order of arrival
  int timeout_seconds = 600;  // for all workers to join
  JobSecret secret;           // asked of every node that joins, if it is set
};

struct NodeAssignment {
  int first_rank = 0;              // this node's workers are first_rank ... + local_worker_num - 1
  std::string job_id;              // the same on all nodes, another one for each run
  std::unique_ptr<NodeLink> link;  // to the other launchers, for as long as the run lasts
  std::unique_ptr<PortClaim> claim;  // node 0 only; likewise
};

/// Brings the launchers of a run together at master_addr:master_port. Node 0 is the launcher that
/// owns the address and got the port (or that has node_rank 0); it waits for the others, numbers
/// the workers node by node, listens at the address and at no other, and frees the port for the
/// store of rank 0 before it answers. Throws ConfigError when requests contradict each other or the
/// port is taken, CommError when not all have joined in time ("3 of 4 workers joined in 60 s;
/// missing rank 3").
NodeAssignment join_nodes(const NodeRequest& request);

/// An identifier that no other run has.
std::string new_job_id();

}  // namespace tessera
