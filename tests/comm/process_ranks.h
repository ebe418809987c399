#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>

#include "tessera/comm/processes/process_world.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera::test {

/// A port of the loopback address that nobody listens on.
inline int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool ok = bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(fd);
  if (!ok) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

enum class Transport { kLocal, kSharedMemory, kGloo };

inline const char* transport_name(Transport transport) {
  switch (transport) {
    case Transport::kLocal: return "threads";
    case Transport::kSharedMemory: return "shared_memory";
    case Transport::kGloo: return "gloo";
  }
  return "";
}

/// As run_ranks; but for kLocal the world that `fn` gets is made of threads that meet as processes
/// do.
inline void run_process_ranks(int n, Transport transport,
                              const std::function<void(const ProcessGroup& world)>& fn,
                              double timeout_seconds = 600) {
  if (transport == Transport::kLocal) return run_ranks(n, fn);
  const int port = free_port();
  run_ranks(n, [&](const ProcessGroup& threads) {
    ProcessWorldOptions options;
    options.rank = threads.rank();
    options.world = n;
    options.master_addr = "127.0.0.1";
    options.master_port = port;
    options.job = "test";
    options.timeout_seconds = timeout_seconds;
    options.shared_memory = transport == Transport::kSharedMemory;
    fn(join_process_world(options));
  });
}

}  // namespace tessera::test
