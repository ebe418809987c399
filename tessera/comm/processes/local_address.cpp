#include "tessera/comm/processes/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

#include "tessera/base/error.h"

namespace tessera {

// Connecting a datagram socket sends nothing, but chooses the route.
std::string local_address_towards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    throw CommError("cannot resolve master address " + host + ": " + gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, entry->ai_protocol);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    std::array<char, NI_MAXHOST> text{};
    const bool ok = connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                    getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text.data(), text.size(),
                                nullptr, 0, NI_NUMERICHOST) == 0;
    close(fd);
    if (ok) return text.data();
  }
  throw CommError("no route to master address " + host);
}

}  // namespace tessera
