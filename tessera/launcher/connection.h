#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tessera {

/// A TCP connection that carries JSON objects, one a line. Owns its socket.
class Connection {
 public:
  explicit Connection(int descriptor);
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  int descriptor() const { return descriptor_; }
  bool closed() const { return closed_; }
  /// The numeric address of the other side.
  std::string peer_address() const;

  /// Small messages only; a peer that is gone makes the connection closed().
  void send(const nlohmann::json& message);

  /// The next object that has arrived; none when there is none yet, or no more. What is not JSON
  /// closes the connection.
  std::optional<nlohmann::json> receive();

  /// Waits for the next object until `deadline`.
  std::optional<nlohmann::json> receive_until(std::chrono::steady_clock::time_point deadline);

 private:
  void close();

  int descriptor_ = -1;
  bool closed_ = false;
  std::string buffer_;
};

}  // namespace tessera
