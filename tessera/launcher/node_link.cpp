#include "tessera/launcher/node_link.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

class Link : public NodeLink {
 public:
  Link(std::vector<NodePeer> peers, bool is_hub, Heartbeat heartbeat)
      : peers_(std::move(peers)), is_hub_(is_hub), heartbeat_(heartbeat) {
    for (NodePeer& peer : peers_) peer.heard = Clock::now();
  }

  void send_failure(const WorkerFailure& failure) override {
    send({{"failed", failure.rank},
          {"exit_code", failure.exit_code},
          {"report", failure.report},
          {"root_cause", failure.is_root_cause ? 1 : 0}});
  }

  void send_states(int first, const RankStates& states) override {
    send({{"lost_peer", first}, {"states", to_json(states)}});
  }

  void send_done() override { send({{"done", true}}); }

  bool others_done() const override {
    return std::ranges::all_of(peers_, [](const NodePeer& peer) { return peer.done; });
  }

  void send_verdict(bool again) override { send({{"again", again}}); }

  std::optional<bool> await_verdict(std::chrono::milliseconds most) override {
    const Clock::time_point deadline = Clock::now() + most;
    NodePeer& hub = peers_.front();
    while (!verdict_ && !hub.connection.closed()) {
      beat();
      const Clock::time_point silent_at = hub.heard + heartbeat_.timeout;
      if (Clock::now() >= std::min(deadline, silent_at)) break;
      const std::optional<json> message = hub.connection.receive_until(
          std::min({deadline, silent_at, Clock::now() + heartbeat_.interval}));
      if (!message) continue;
      hub.heard = Clock::now();
      understand(hub, *message);
    }
    return verdict_;
  }

  std::optional<WorkerFailure> poll() override {
    beat();
    for (NodePeer& peer : peers_) {
      while (const std::optional<json> message = peer.connection.receive()) {
        peer.heard = Clock::now();
        if (std::optional<WorkerFailure> failure = understand(peer, *message)) return failure;
      }
      const bool silent = Clock::now() - peer.heard > heartbeat_.timeout;
      if ((peer.connection.closed() || silent) && !peer.done) {
        peer.done = true;
        WorkerFailure failure;
        failure.exit_code = static_cast<int>(ExitCode::kComm);
        failure.report =
            "the launcher of " + peer.name +
            (peer.connection.closed() ? " is gone"
                                      : " has said nothing for " + seconds(heartbeat_.timeout) +
                                            " s (--heartbeat_timeout)");
        if (is_hub_) send_failure(failure);
        return failure;
      }
    }
    return std::nullopt;
  }

  const RankStates& states() const override { return states_; }
  bool decides() const override { return is_hub_; }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string seconds(std::chrono::milliseconds time) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", static_cast<double>(time.count()) / 1e3);
    return text;
  }

  void beat() {
    if (Clock::now() - told_ < heartbeat_.interval) return;
    told_ = Clock::now();
    send({{"beat", true}});
  }

  void send(const json& message) {
    for (NodePeer& peer : peers_) peer.connection.send(message);
  }

  std::optional<WorkerFailure> understand(NodePeer& peer, const json& message) {
    if (message.contains("done")) peer.done = true;
    if (const auto again = message.find("again"); again != message.end() && again->is_boolean()) {
      verdict_ = again->get<bool>();
    }
    if (const auto states = message.find("states"); states != message.end()) {
      for (auto& [rank, state] : rank_states(*states)) {
        state.node = peer.name;
        states_[rank] = std::move(state);
      }
      peer.done = true;
      WorkerFailure failure;
      failure.rank = integer_of(message, "lost_peer", -1);
      failure.exit_code = static_cast<int>(ExitCode::kComm);
      failure.is_root_cause = false;
      failure.report = "a worker of " + peer.name + " lost a peer";
      return failure;
    }
    if (!message.contains("failed")) return std::nullopt;
    WorkerFailure failure;
    failure.rank = integer_of(message, "failed", -1);
    failure.exit_code = integer_of(message, "exit_code", 3);
    failure.report = text_of(message, "report");
    failure.is_root_cause = integer_of(message, "root_cause", 1) != 0;
    peer.done = true;
    if (is_hub_) {
      send_failure(failure);
      failure.report = "on " + peer.name + ": " + failure.report;
    } else {
      failure.report = "on another node: " + first_line(failure.report);
    }
    return failure;
  }

  std::vector<NodePeer> peers_;
  const bool is_hub_;
  const Heartbeat heartbeat_;
  Clock::time_point told_{};
  std::optional<bool> verdict_;  // of node 0
  RankStates states_;
};

}  // namespace

std::unique_ptr<NodeLink> make_node_link(std::vector<NodePeer> peers, bool is_hub,
                                         Heartbeat heartbeat) {
  return std::make_unique<Link>(std::move(peers), is_hub, heartbeat);
}

int integer_of(const json& message, const char* key, int otherwise) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_number_integer()) return otherwise;
  const auto value = found->get<int64_t>();
  return value < 0 || value > std::numeric_limits<int>::max() ? otherwise : static_cast<int>(value);
}

std::string text_of(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace tessera
