#include "tessera/launcher/hosts/reach.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOneTry{2000};
constexpr milliseconds kPause{200};

Resolved ask_system(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  Resolved result;
  if (code != 0) {
    result.cause = std::string("no such host (") + ::gai_strerror(code) + ")";
    return result;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    NetAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    result.addresses.push_back(address);
  }
  std::ranges::stable_partition(result.addresses, [](const NetAddress& address) {
    return address.storage.ss_family == AF_INET;
  });
  return result;
}

// A connected socket, or -1 with errno.
int connect_once(const NetAddress& address, milliseconds limit) {
  const int descriptor =
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  int error = 0;
  if (::connect(descriptor, address.get(), address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      pollfd ready{descriptor, POLLOUT, 0};
      socklen_t length = sizeof error;
      if (::poll(&ready, 1, static_cast<int>(limit.count())) <= 0) {
        error = ETIMEDOUT;
      } else if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
      }
    }
  }
  if (error == 0) return descriptor;
  ::close(descriptor);
  errno = error;
  return -1;
}

// Tries every address of the host until one will do.
void try_until(const ReachOptions& options, const std::string& doing,
               const std::function<bool(const NetAddress&)>& attempt) {
  const Clock::time_point say_at = Clock::now() + options.patience;
  const std::string place = options.host + ":" + std::to_string(options.port);
  bool said = false;
  std::string cause;
  for (;;) {
    const Clock::time_point next = said ? options.deadline : std::min(say_at, options.deadline);
    const Resolved host =
        resolve_host(options.host, options.port, std::max(next, Clock::now() + kPause));
    cause = host.cause;
    for (const NetAddress& address : host.addresses) {
      if (attempt(address)) return;
      cause = cause_of(errno);
      if (host.addresses.size() > 1) cause += " at " + address.text();
    }
    const auto now = Clock::now();
    if (now >= options.deadline) break;
    if (!said && now >= say_at) {
      said = true;
      log_info("cannot " + doing + " " + options.what + " at " + place + " yet: " + cause +
               "; tries until " + options.limit + " are over");
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(kPause, options.deadline - now));
  }
  throw CommError("cannot " + doing + " " + options.what + " at " + place + " within " +
                  options.limit + ": " + cause);
}

}  // namespace

std::string NetAddress::text() const {
  std::array<char, NI_MAXHOST> name{};
  if (::getnameinfo(get(), length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "?";
  }
  return name.data();
}

Resolved resolve_host(const std::string& host, int port, Clock::time_point deadline) {
  // The system's resolver may take longer than anybody wants to wait: it is left to a thread.
  const auto answer = std::make_shared<std::promise<Resolved>>();
  std::future<Resolved> future = answer->get_future();
  std::thread([answer, host, port] { answer->set_value(ask_system(host, port)); }).detach();
  if (future.wait_until(deadline) == std::future_status::ready) return future.get();
  Resolved none;
  none.cause = "no such host (the name server does not answer)";
  return none;
}

std::string cause_of(int error) {
  const std::string text = std::strerror(error);
  switch (error) {
    case ECONNREFUSED: return "refused (nobody listens there)";
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN: return "unreachable (" + text + ")";
    case ETIMEDOUT: return "unreachable (no answer)";
    case EAFNOSUPPORT: return "wrong family (" + text + ")";
    case EADDRNOTAVAIL: return "it is no address of this machine";
    default: return text;
  }
}

int listening_socket(const NetAddress& address) {
  const int descriptor = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(descriptor, address.get(), address.length) == 0 &&
      ::listen(descriptor, SOMAXCONN) == 0) {
    return descriptor;
  }
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

Reached reach(const ReachOptions& options) {
  Reached reached;
  try_until(options, "reach", [&](const NetAddress& address) {
    const auto left = std::chrono::duration_cast<milliseconds>(options.deadline - Clock::now());
    reached.descriptor = connect_once(address, std::clamp(left, milliseconds(1), kOneTry));
    if (reached.descriptor >= 0) reached.address = address.text();
    return reached.descriptor >= 0;
  });
  return reached;
}

Reached listen_at(const ReachOptions& options) {
  Reached reached;
  try_until(options, "serve", [&](const NetAddress& address) {
    reached.descriptor = listening_socket(address);
    if (reached.descriptor < 0 && errno == EADDRINUSE) {
      throw CommError("port " + std::to_string(options.port) + " is in use on " + options.host +
                      ": choose another with --master_port (MASTER_PORT)");
    }
    if (reached.descriptor >= 0) reached.address = address.text();
    return reached.descriptor >= 0;
  });
  return reached;
}

void await_name(const ReachOptions& options) {
  try_until(options, "resolve", [](const NetAddress&) { return true; });
}

}  // namespace tessera
