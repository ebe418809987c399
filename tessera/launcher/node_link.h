#pragma once

// What the launchers of a run tell each other while it lasts, over the connections on which they
// met: node 0 has one to each of the others.

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
};

/// `is_hub`: this is node 0, which passes on what one of the others tells.
std::unique_ptr<NodeLink> make_node_link(std::vector<NodePeer> peers, bool is_hub);

/// What came from outside may be anything: the whole number or the text under `key`, if it is one.
int integer_of(const nlohmann::json& message, const char* key, int otherwise);
std::string text_of(const nlohmann::json& message, const char* key);

}  // namespace tessera
