#pragma once

#include <memory>

#include "tessera/dist/meeting_point.h"
#include "tessera/dist/message_transport.h"

namespace tessera {

/// Connects to each of the ranks that met at `meeting` through Gloo (TCP). Collective. Throws
/// CommError.
std::unique_ptr<MessageTransport> connect_gloo(std::shared_ptr<MeetingPoint> meeting);

}  // namespace tessera
