#pragma once

// A run that starts again by itself: the workers of this node, as often as it takes.

#include <functional>
#include <memory>
#include <vector>

#include "tessera/launcher/rendezvous.h"
#include "tessera/launcher/restarts.h"
#include "tessera/launcher/worker_group.h"

namespace tessera {

struct StartPlan {
  /// Meets the other nodes. `claim`: what a node 0 holds from the start before.
  std::function<NodeAssignment(const EarlierStart&, std::unique_ptr<PortClaim> claim)> meet;
  /// The workers of one start. `restarts`: those after which no step is finished yet.
  std::function<std::vector<Worker>(const NodeAssignment&, const std::vector<Restart>& restarts)>
      workers;
  WorkerGroupOptions group;
};

/// Starts the workers and, when one of them or a node is lost, starts them again as far as node 0
/// allows it (RestartLimit). Each restart is said with its cause; at the end all of them with what
/// they cost. Returns the exit code of the last start.
int run_starts(const StartPlan& plan);

}  // namespace tessera
