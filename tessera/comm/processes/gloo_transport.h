#pragma once

#include <memory>

#include "tessera/comm/processes/meeting_point.h"
#include "tessera/comm/processes/message_transport.h"

namespace tessera {

/// Connects to each of the ranks that met at `meeting` through Gloo (TCP). Collective. Throws
/// CommError.
std::unique_ptr<MessageTransport> connect_gloo(std::shared_ptr<MeetingPoint> meeting);

}  // namespace tessera
