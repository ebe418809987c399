#pragma once

// Collectives between processes with a device each, over NCCL. Tensors in host memory (counts,
// texts, hashes) take the way of ranks without devices, so that callers need not know.
//
// Timeouts: an operation that does not complete in time ends the process (exit code 3) with a line
// that names it, its group and the ranks that have not started it (operation_watch.h); the
// launcher then ends the others. A sum's order is NCCL's: fixed for a given set of devices, but not
// member 0 first.

#include <memory>

#include "tessera/comm/process_group.h"
#include "tessera/comm/processes/meeting_point.h"

namespace tessera {

/// The group of all ranks, this one on `device`. `host` is the same group without devices. Throws
/// ConfigError where NCCL is not compiled in.
ProcessGroup nccl_group(std::shared_ptr<MeetingPoint> meeting, const ProcessGroup& host,
                        const at::Device& device);

}  // namespace tessera
