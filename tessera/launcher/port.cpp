#include "tessera/launcher/port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr int kLastPort = 65535;
constexpr int kPortsTried = 100;

in_addr resolve_ipv4(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    throw ConfigError(
        "--master_addr " + host +
        " is neither an IPv4 address nor a known host name: " + ::gai_strerror(error));
  }
  const in_addr address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  return address;
}

// Whether a socket could listen on the port now, as the store of rank 0 will.
bool can_listen(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool free =
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(descriptor, 1) == 0;
  ::close(descriptor);
  return free;
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

int free_port_after(int port) {
  for (int other = port + 1; other <= std::min(kLastPort, port + kPortsTried); ++other) {
    const int claimed = claim(other);
    if (claimed < 0) continue;
    ::close(claimed);
    if (can_listen(other)) return other;
  }
  return 0;
}

}  // namespace

bool owns_address(const std::string& host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = resolve_ipv4(host);
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  const bool ours =
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(descriptor);
  return ours;
}

std::string resolve(const std::string& host) {
  const in_addr address = resolve_ipv4(host);
  char text[INET_ADDRSTRLEN];
  ::inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

PortClaim::PortClaim(int port, const std::string& option) {
  descriptor_ = claim(port);
  if (descriptor_ >= 0 && can_listen(port)) return;
  const bool other_job = descriptor_ < 0;
  if (!other_job) ::close(descriptor_);
  std::string text = "port " + std::to_string(port) + " (" + option +
                     ") is taken on this machine by " +
                     (other_job ? "another job of tessera" : "another program");
  const int free = free_port_after(port);
  if (free > 0) text += "; free is for example " + option + "=" + std::to_string(free);
  throw ConfigError(text);
}

PortClaim::~PortClaim() { ::close(descriptor_); }

}  // namespace tessera
