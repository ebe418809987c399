#pragma once

#include <string>

namespace tessera {

/// The numeric address of this machine through which it reaches `host`. Throws CommError if the
/// name cannot be resolved or there is no route.
std::string local_address_towards(const std::string& host, int port);

}  // namespace tessera
