#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

namespace tessera::test {

/// Connections of nobody to a port of the loopback address: silent ones, ones that sent random
/// bytes or half of a message, and ones that were closed in one direction or at once. They stay
/// open for as long as this lives.
class Strangers {
 public:
  explicit Strangers(int port, int silent = 200, int noisy = 30) {
    std::mt19937 random(12345);
    for (int i = 0; i < silent; ++i) connect(port);
    for (int i = 0; i < noisy; ++i) {
      const int descriptor = connect(port);
      std::string bytes(1 + random() % 2000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      if (i % 5 == 0) bytes += '\n';
      if (i % 5 == 1) bytes = "GET / HTTP/1.1\r\n\r\n";
      if (i % 5 == 2) bytes = "{\"tessera\":";
      if (i % 5 == 3) bytes = "{\"tessera\":2,\"worker_num\":1e99,\"node_rank\":[]}\n";
      static_cast<void>(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (i % 3 == 0) ::shutdown(descriptor, SHUT_WR);
      if (i % 3 == 1) {
        const linger at_once{1, 0};  // with a reset
        ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        ::close(descriptor);
        open_.pop_back();
      }
    }
  }
  ~Strangers() {
    for (const int descriptor : open_) ::close(descriptor);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  /// How many connections were made.
  int connected() const { return connected_; }

 private:
  int connect(int port) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      ++connected_;
    }
    open_.push_back(descriptor);
    return descriptor;
  }

  std::vector<int> open_;
  int connected_ = 0;
};

}  // namespace tessera::test
