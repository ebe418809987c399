#pragma once

#include <string>
#include <vector>

#include "tessera/comm/sharded_param.h"

namespace tessera {

/// "the copies of NAME along dp_replicate differ (ranks 1 3); parameters whose copies differ: 2",
/// of what check_replicas found. Empty: nothing.
std::string replica_text(const std::vector<ReplicaDifference>& differences);

}  // namespace tessera
