#include "tessera/launcher/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/launcher/hosts/reach.h"

namespace tessera {
namespace {

constexpr size_t kLongestLine = 1 << 20;
constexpr int kSendMilliseconds = 2000;

}  // namespace

Connection::Connection(int descriptor) : descriptor_(descriptor) {
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

Connection::~Connection() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Connection::Connection(Connection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      closed_(other.closed_),
      buffer_(std::move(other.buffer_)) {}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(closed_, other.closed_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

void Connection::close() {
  closed_ = true;
  ::shutdown(descriptor_, SHUT_RDWR);
}

void Connection::send(const nlohmann::json& message) {
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  size_t done = 0;
  while (done < line.size() && !closed_) {
    const ssize_t sent = ::send(descriptor_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd ready{descriptor_, POLLOUT, 0};
      if (::poll(&ready, 1, kSendMilliseconds) == 0) close();
    } else if (errno != EINTR) {
      close();
    }
  }
}

std::optional<nlohmann::json> Connection::receive() {
  while (!closed_) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      nlohmann::json message = nlohmann::json::parse(buffer_.substr(0, end), nullptr, false);
      buffer_.erase(0, end + 1);
      if (message.is_object()) return message;
      close();
      break;
    }
    char chunk[4096];
    const ssize_t got = ::recv(descriptor_, chunk, sizeof chunk, 0);
    if (got > 0) {
      buffer_.append(chunk, static_cast<size_t>(got));
      if (buffer_.size() > kLongestLine) close();
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    } else {
      close();
    }
  }
  return std::nullopt;
}

std::optional<nlohmann::json> Connection::receive_until(
    std::chrono::steady_clock::time_point deadline) {
  while (true) {
    if (std::optional<nlohmann::json> message = receive()) return message;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (closed_ || left.count() <= 0) return std::nullopt;
    pollfd ready{descriptor_, POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left.count() + 1, 1000)));
  }
}

std::string Connection::peer_address() const {
  NetAddress address;
  address.length = sizeof address.storage;
  if (::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0) {
    return "an unknown address";
  }
  return address.text();
}

}  // namespace tessera
