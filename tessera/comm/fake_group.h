#pragma once

#include <string>

#include "tessera/comm/process_group.h"

namespace tessera {

/// A group of ranks 0 to `size` - 1 of which only `rank` exists, for plans and tests: it checks
/// arguments and counts calls and bytes as any other, and moves no data. What would come from other
/// ranks is zero; a sum is the rank's own part of it, a broadcast changes nothing. Splits are
/// fakes, too, and a barrier does not wait.
ProcessGroup fake_group(int rank, int size, const std::string& name = "world");

}  // namespace tessera
