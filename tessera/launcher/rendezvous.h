#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/launcher/hosts/port.h"
#include "tessera/launcher/job_secret.h"
#include "tessera/launcher/node_link.h"
#include "tessera/launcher/worker_group.h"

namespace tessera {

/// What a launcher brings along that has been in the run before.
struct EarlierStart {
  std::string job_id;       // empty: it is new
  int64_t generation = 0;   // the last start that it was in
  bool was_node_0 = false;  // and is again; the others never become it
};

/// What the workers of a start are told when the run may go on with fewer.
struct StartLayout {
  int used = 0;                        // workers of the run; those of higher ranks are spare
  std::vector<std::string> overrides;  // of the file
  std::string text;                    // of the layout, for people
};

/// What a launcher brings to a run over several nodes.
struct NodeRequest {
  int worker_num = 1;     // workers of the run
  int least_workers = 0;  // with which it goes on; 0: all of them
  /// The layout when so many workers are there; throws CommError when there is none. Asked on node
  /// 0, and only with least_workers.
  std::function<StartLayout(int present)> layout;
  int local_worker_num = 1;  // workers of this node
  std::string master_addr = "127.0.0.1";
  int master_port = 8118;
  int node_rank = -1;         // -1: given by the order of arrival
  int timeout_seconds = 600;  // for all workers to join
  JobSecret secret;           // asked of every node that joins, if it is set
  int max_restarts = 0;       // that of node 0 counts. Not 0: it goes on asking for node 0
  Heartbeat heartbeat;
  EarlierStart earlier;
};

struct NodeAssignment {
  int first_rank = 0;              // this node's workers are first_rank ... + local_worker_num - 1
  std::string job_id;              // the same on all nodes, another one for each run
  int64_t generation = 1;          // which start of the run this is
  StartLayout layout;              // used 0: all workers, as the file says
  int max_restarts = 0;            // of node 0
  std::unique_ptr<NodeLink> link;  // to the other launchers, for as long as the run lasts
  std::unique_ptr<PortClaim> claim;  // node 0 only; likewise
};

/// Brings the launchers of a run together at master_addr:master_port. Node 0 is the launcher that
/// owns the address and got the port (or that has node_rank 0); it waits for the others, numbers
/// the workers node by node, gives the start a number above that of all that are there, listens at
/// the address and at no other, and frees the port for the store of rank 0 before it answers.
/// Throws ConfigError when requests contradict each other or the port is taken, CommError when not
/// enough have joined in time ("3 of 4 workers joined in 60 s; missing rank 3"). `claim`: of a node
/// 0 that starts again, which has the port already.
NodeAssignment join_nodes(const NodeRequest& request, std::unique_ptr<PortClaim> claim = nullptr);

/// How long a launcher waits for its port: one that may start again may follow a killed one.
std::chrono::milliseconds port_patience(int max_restarts);

/// An identifier that no other run has.
std::string new_job_id();

}  // namespace tessera
