#pragma once

// What the launchers of a run tell each other while it lasts, over the connections on which they
// met: node 0 has one to each of the others.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tessera/launcher/connection.h"
#include "tessera/launcher/worker_group.h"

namespace tessera {

struct NodePeer {
  Connection connection;
  std::string name;  // "node 2"
  bool done = false;
  std::chrono::steady_clock::time_point heard{};  // when it last said something
};

/// How often launchers tell each other that they are there, and after how long a silent one counts
/// as lost.
struct Heartbeat {
  std::chrono::milliseconds interval{1000};
  std::chrono::milliseconds timeout{10000};
};

/// `is_hub`: this is node 0, which passes on what one of the others tells.
std::unique_ptr<NodeLink> make_node_link(std::vector<NodePeer> peers, bool is_hub,
                                         Heartbeat heartbeat = {});

/// What came from outside may be anything: the whole number or the text under `key`, if it is one.
int integer_of(const nlohmann::json& message, const char* key, int otherwise);
std::string text_of(const nlohmann::json& message, const char* key);

}  // namespace tessera
