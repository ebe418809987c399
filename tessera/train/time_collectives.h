#pragma once

#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/planner/machine/machine.h"

namespace tessera {

/// Seconds of every collective and of a message, at three sizes. Collective over the group; the
/// same on every rank.
std::vector<CollectiveTimes> time_collectives(const ProcessGroup& group,
                                              const std::string& transport);

}  // namespace tessera
