#pragma once

#include <memory>

#include "tessera/comm/processes/meeting_point.h"
#include "tessera/comm/processes/message_transport.h"

namespace tessera {

/// Connects the ranks that met at `meeting` through shared memory if all are on one host and can
/// share it; nullptr, on all, if not. Collective.
std::unique_ptr<MessageTransport> connect_shared_memory(std::shared_ptr<MeetingPoint> meeting);

}  // namespace tessera
