#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/dist/message_transport.h"

namespace tessera {

struct GlooOptions {
  int rank = 0;
  int world = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  bool serve = false;  // this rank serves the store (rank 0, once per address and port)
  std::string job;     // part of every key, so that two jobs never meet in one store
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};  // of the meeting
};

/// Meets the other ranks over c10d's TCPStore and connects to each through Gloo (TCP). Throws
/// CommError: the port is busy, the store belongs to another job, ranks that did not come (named).
std::unique_ptr<MessageTransport> connect_gloo(const GlooOptions& options);

}  // namespace tessera
