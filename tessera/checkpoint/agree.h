#pragma once

#include <functional>
#include <string>

#include "tessera/comm/process_group.h"

namespace tessera {

/// Runs `work` on every rank (it must not use the group) and throws CheckpointError on all of them
/// alike when it threw one on any, or an error of the file system: with the message of the first,
/// and how many more. Collective.
void agree(const ProcessGroup& world, const std::function<void()>& work);

/// The message of the error that `work` threw, as seen by every rank; empty when it threw none.
std::string first_error(const ProcessGroup& world, const std::function<void()>& work);

}  // namespace tessera
