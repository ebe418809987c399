#pragma once

// Collectives between processes with a device each, over NCCL. Tensors in host memory (counts,
// texts, hashes) take the way of ranks without devices, so that callers need not know.
//
// Timeouts: NCCL's watchdog (c10d) ends a process whose operation does not complete in time; the
// launcher then ends the others. A sum's order is NCCL's: fixed for a given set of devices, but not
// member 0 first.

#include <memory>

#include "tessera/dist/meeting_point.h"
#include "tessera/dist/process_group.h"

namespace tessera {

/// The group of all ranks, this one on `device`. `host` is the same group without devices. Throws
/// ConfigError where NCCL is not compiled in.
ProcessGroup nccl_group(std::shared_ptr<MeetingPoint> meeting, const ProcessGroup& host,
                        const at::Device& device);

}  // namespace tessera
