#include "tessera/launcher/hosts/port.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/launcher/hosts/reach.h"

namespace tessera {
namespace {

constexpr int kLastPort = 65535;
constexpr int kPortsTried = 100;
constexpr std::chrono::seconds kPatience{10};    // for the name server
constexpr std::chrono::milliseconds kLook{100};  // at a port that is taken

// Throws ConfigError when the name does not resolve.
std::vector<NetAddress> addresses_of(const std::string& host, int port) {
  Resolved found = resolve_host(host, port, std::chrono::steady_clock::now() + kPatience);
  if (found.addresses.empty()) throw ConfigError("--master_addr " + host + ": " + found.cause);
  return std::move(found.addresses);
}

// Whether a socket could listen there now, as the store of rank 0 will. True also when the address
// is not this machine's: that is told elsewhere.
bool can_listen(const std::string& host, int port) {
  for (const NetAddress& address : addresses_of(host, port)) {
    const int descriptor = listening_socket(address);
    if (descriptor >= 0) {
      ::close(descriptor);
      return true;
    }
    if (errno == EADDRINUSE) return false;
  }
  return true;
}

// A socket with the abstract name of the port, or -1 when another launcher has it.
int claim(int port) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "tessera-master-port-" + std::to_string(port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

int free_port_after(const std::string& host, int port) {
  for (int other = port + 1; other <= std::min(kLastPort, port + kPortsTried); ++other) {
    const int claimed = claim(other);
    if (claimed < 0) continue;
    ::close(claimed);
    if (can_listen(host, other)) return other;
  }
  return 0;
}

}  // namespace

bool owns_address(const std::string& host) {
  return std::ranges::any_of(addresses_of(host, 0), [](const NetAddress& address) {
    const int descriptor = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return false;
    const bool ours = ::bind(descriptor, address.get(), address.length) == 0;
    ::close(descriptor);
    return ours;
  });
}

std::string resolve(const std::string& host) { return addresses_of(host, 0).front().text(); }

PortClaim::PortClaim(const std::string& host, int port, const std::string& option,
                     std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool other_job = false;
  for (;;) {
    descriptor_ = claim(port);
    if (descriptor_ >= 0 && can_listen(host, port)) return;
    other_job = descriptor_ < 0;
    if (!other_job) ::close(descriptor_);
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kLook);
  }
  std::string text = "port " + std::to_string(port) + " (" + option +
                     ") is taken on this machine by " +
                     (other_job ? "another job of tessera" : "another program");
  const int free = free_port_after(host, port);
  if (free > 0) text += "; free is for example " + option + "=" + std::to_string(free);
  throw ConfigError(text);
}

PortClaim::~PortClaim() { ::close(descriptor_); }

}  // namespace tessera
