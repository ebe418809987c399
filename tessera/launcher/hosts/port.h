#pragma once

#include <chrono>
#include <string>

namespace tessera {

/// Whether `host` (a name or a numeric address) is an address of this machine. Throws ConfigError
/// when the name does not resolve.
bool owns_address(const std::string& host);

/// The first address of `host`, numeric; IPv4 comes first. Throws ConfigError when it does not
/// resolve.
std::string resolve(const std::string& host);

/// Claims the port of a job on this machine among launchers, for as long as it lives (a name of
/// the kernel's that vanishes with the process, whatever kills it), and finds out whether some
/// other program listens there. It does not listen itself: rank 0 will.
class PortClaim {
 public:
  /// The port is that of `host`. Waits up to `patience` for who has it: workers of a launcher that
  /// was killed take a moment to end. Throws ConfigError that names `option` (for example
  /// "--master_port") and a free port.
  PortClaim(const std::string& host, int port, const std::string& option,
            std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  ~PortClaim();
  PortClaim(const PortClaim&) = delete;
  PortClaim& operator=(const PortClaim&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace tessera
