#pragma once

// Connecting to the meeting place of a run, and listening there. A name may not resolve yet, and
// nobody may listen yet: both try again until a deadline, say after five seconds what is in the
// way, and in the end fail with that cause.

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

namespace tessera {

struct NetAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string text() const;  // numeric, without the port
};

struct Resolved {
  std::vector<NetAddress> addresses;  // IPv4 first
  std::string cause;                  // why there are none: "no such host (...)"
};

/// Asks the system for `host`, a name or a numeric address, at most until `deadline`.
Resolved resolve_host(const std::string& host, int port,
                      std::chrono::steady_clock::time_point deadline);

struct ReachOptions {
  std::string what;  // "rank 0", for messages
  std::string host;
  int port = 0;
  std::chrono::steady_clock::time_point deadline;
  std::string limit;  // "600 s", from the start to the deadline, for messages
  std::chrono::milliseconds patience{5000};  // before the cause is said
};

struct Reached {
  int descriptor = -1;  // connected or listening; the caller closes it
  std::string address;  // numeric
};

/// Connects. Throws CommError: "cannot reach rank 0 at node0:8118 within 600 s: refused (...)".
Reached reach(const ReachOptions& options);

/// Listens at the address of `host` that is this machine's, and at no other. Throws CommError: the
/// same, and at once when the port is taken.
Reached listen_at(const ReachOptions& options);

/// Returns when the name resolves. Throws CommError likewise.
void await_name(const ReachOptions& options);

/// What errno says of a connection: "refused (nobody listens there)", "unreachable (...)", ...
std::string cause_of(int error);

/// A socket that listens at `address`, or -1 with errno.
int listening_socket(const NetAddress& address);

}  // namespace tessera
