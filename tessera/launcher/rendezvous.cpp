#include "tessera/launcher/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/connection.h"
#include "tessera/launcher/port.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::chrono::seconds kAnswerTime{5};  // for a launcher to say that it is one
constexpr std::chrono::seconds kVerdictSlack{5};

std::string place(const NodeRequest& request) {
  return request.master_addr + ":" + std::to_string(request.master_port) +
         " (--master_addr, --master_port)";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What a stranger sent may be anything.
int integer(const json& message, const char* key, int otherwise) {
  const auto found = message.find(key);
  return found != message.end() && found->is_number_integer() ? found->get<int>() : otherwise;
}

std::string text(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

// --- while the run lasts -------------------------------------------------------------------------

struct Peer {
  Connection connection;
  std::string name;  // "node 2"
  bool done = false;
};

json to_json(const WorkerFailure& failure) {
  return {{"failed", failure.rank},
          {"exit_code", failure.exit_code},
          {"report", failure.report},
          {"root_cause", failure.is_root_cause ? 1 : 0}};
}

class Link : public NodeLink {
 public:
  Link(std::vector<Peer> peers, bool is_hub) : peers_(std::move(peers)), is_hub_(is_hub) {}

  void send_failure(const WorkerFailure& failure) override {
    for (Peer& peer : peers_) peer.connection.send(to_json(failure));
  }

  void send_done() override {
    for (Peer& peer : peers_) peer.connection.send({{"done", true}});
  }

  std::optional<WorkerFailure> poll() override {
    for (Peer& peer : peers_) {
      while (const std::optional<json> message = peer.connection.receive()) {
        if (message->contains("done")) peer.done = true;
        if (!message->contains("failed")) continue;
        WorkerFailure failure;
        failure.rank = integer(*message, "failed", -1);
        failure.exit_code = integer(*message, "exit_code", 3);
        failure.report = text(*message, "report");
        failure.is_root_cause = integer(*message, "root_cause", 1) != 0;
        peer.done = true;
        if (is_hub_) {
          send_failure(failure);
          failure.report = "on " + peer.name + ": " + failure.report;
        } else {
          failure.report = "on another node: " + first_line(failure.report);
        }
        return failure;
      }
      if (peer.connection.closed() && !peer.done) {
        peer.done = true;
        WorkerFailure failure;
        failure.exit_code = static_cast<int>(ExitCode::kComm);
        failure.report = "the launcher of " + peer.name + " is gone";
        if (is_hub_) send_failure(failure);
        return failure;
      }
    }
    return std::nullopt;
  }

 private:
  std::vector<Peer> peers_;
  bool is_hub_;
};

// --- node 0 --------------------------------------------------------------------------------------

// A listening socket, or -1 when the port is taken.
int listen_on(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  TESSERA_CHECK(descriptor >= 0, "socket");
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(descriptor, 128) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

struct Joined {
  int node_rank = -1;
  int workers = 0;
  std::optional<Connection> connection;  // none: this launcher itself
};

class Host {
 public:
  Host(const NodeRequest& request, int listener) : request_(request), listener_(listener) {
    joined_.push_back({request.node_rank, request.local_worker_num, std::nullopt});
  }
  ~Host() {
    if (listener_ >= 0) ::close(listener_);
  }

  NodeAssignment run() {
    const Clock::time_point deadline =
        Clock::now() + std::chrono::seconds(request_.timeout_seconds);
    while (workers() < request_.worker_num) {
      if (Clock::now() >= deadline) give_up();
      std::vector<pollfd> wake = {{listener_, POLLIN, 0}};
      for (const Connection& guest : guests_) wake.push_back({guest.descriptor(), POLLIN, 0});
      ::poll(wake.data(), wake.size(), 200);
      accept_guests();
      hear_guests();
      drop_the_gone();
    }
    return assign();
  }

 private:
  int workers() const {
    int sum = 0;
    for (const Joined& node : joined_) sum += node.workers;
    return sum;
  }

  void accept_guests() {
    pollfd waiting{listener_, POLLIN, 0};
    while (::poll(&waiting, 1, 0) > 0) {
      const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) return;
      guests_.emplace_back(descriptor);
    }
  }

  void hear_guests() {
    for (size_t i = 0; i < guests_.size();) {
      const std::optional<json> hello = guests_[i].receive();
      if (!hello && !guests_[i].closed()) {
        ++i;
        continue;
      }
      Connection guest = std::move(guests_[i]);
      guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
      if (hello) admit(std::move(guest), *hello);
    }
  }

  void admit(Connection guest, const json& hello) {
    const int node_rank = integer(hello, "node_rank", -1);
    const int count = integer(hello, "local_worker_num", 0);
    const int total = integer(hello, "worker_num", 0);
    std::string refusal;
    if (integer(hello, "tessera", 0) != 1 || count < 1) {
      refusal = "not a launcher of tessera";
    } else if (total != request_.worker_num) {
      refusal = "--worker_num is " + std::to_string(total) + " here and " +
                std::to_string(request_.worker_num) + " on node 0";
    } else if (workers() + count > request_.worker_num) {
      refusal = std::to_string(workers()) + " of " + std::to_string(request_.worker_num) +
                " workers have joined already; " + std::to_string(count) + " more are too many";
    } else if ((node_rank < 0) != (request_.node_rank < 0)) {
      refusal = "give --node_rank on every node or on none";
    } else if (node_rank >= 0) {
      for (const Joined& node : joined_) {
        if (node.node_rank == node_rank) {
          refusal = "two nodes have --node_rank " + std::to_string(node_rank);
        }
      }
    }
    if (!refusal.empty()) {
      guest.send({{"error", refusal}});
      log_warning("a node was refused: " + refusal);
      return;
    }
    guest.send({{"welcome", true}});
    joined_.push_back({node_rank, count, std::move(guest)});
  }

  // A launcher that ended while it waited: its place is free again.
  void drop_the_gone() {
    std::erase_if(joined_, [](Joined& node) {
      if (!node.connection) return false;
      node.connection->receive();
      return node.connection->closed();
    });
  }

  // Where the workers of each joined node start, were all nodes as large as it.
  std::set<int> covered_ranks() const {
    std::set<int> covered;
    int next = 0;
    for (const Joined& node : joined_) {
      const int first = node.node_rank >= 0 ? node.node_rank * node.workers : next;
      for (int i = 0; i < node.workers; ++i) covered.insert(first + i);
      next += node.workers;
    }
    return covered;
  }

  [[noreturn]] void give_up() {
    const std::set<int> covered = covered_ranks();
    std::vector<int> missing;
    for (int rank = 0; rank < request_.worker_num; ++rank) {
      if (!covered.contains(rank)) missing.push_back(rank);
    }
    std::string report = std::to_string(workers()) + " of " + std::to_string(request_.worker_num) +
                         " workers joined in " + std::to_string(request_.timeout_seconds) +
                         " s (--cluster_time_out); missing rank";
    if (missing.size() > 1) report += "s";
    for (size_t i = 0; i < missing.size(); ++i) {
      report += (i == 0 ? " " : ", ") + std::to_string(missing[i]);
    }
    for (Joined& node : joined_) {
      if (node.connection) node.connection->send({{"error", report}});
    }
    throw CommError(report);
  }

  NodeAssignment assign() {
    // Rank 0 is this node's: its store listens at master_addr.
    if (request_.node_rank >= 0) {
      std::sort(joined_.begin(), joined_.end(),
                [](const Joined& a, const Joined& b) { return a.node_rank < b.node_rank; });
    }
    ::close(listener_);
    listener_ = -1;
    NodeAssignment result;
    result.job_id = new_job_id();
    std::vector<Peer> peers;
    int next = 0;
    for (size_t i = 0; i < joined_.size(); ++i) {
      Joined& node = joined_[i];
      if (node.connection) {
        node.connection->send({{"first_rank", next}, {"job_id", result.job_id}});
        peers.push_back({std::move(*node.connection), "node " + std::to_string(i)});
      } else {
        result.first_rank = next;
      }
      next += node.workers;
    }
    result.link = std::make_unique<Link>(std::move(peers), true);
    return result;
  }

  const NodeRequest& request_;
  int listener_;
  std::vector<Joined> joined_;
  std::vector<Connection> guests_;  // connected, not heard yet
};

// --- the other nodes -----------------------------------------------------------------------------

NodeAssignment join(const NodeRequest& request) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(request.timeout_seconds);
  const std::string address = resolve(request.master_addr);
  std::optional<Connection> connection = connect_to(address, request.master_port);
  while (!connection && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    connection = connect_to(address, request.master_port);
  }
  if (!connection) {
    throw CommError("no launcher answered at " + place(request) + " in " +
                    std::to_string(request.timeout_seconds) + " s (--cluster_time_out)");
  }
  connection->send({{"tessera", 1},
                    {"worker_num", request.worker_num},
                    {"local_worker_num", request.local_worker_num},
                    {"node_rank", request.node_rank}});
  std::optional<json> answer = connection->receive_until(Clock::now() + kAnswerTime);
  if (!answer) {
    throw ConfigError(
        "what listens at " + place(request) +
        " is not the launcher of this run: another program or a run that has begun has the port");
  }
  if (answer->contains("welcome")) {
    answer = connection->receive_until(deadline + kVerdictSlack);
    if (!answer) {
      throw CommError("the launcher of node 0 at " + place(request) + " is gone");
    }
    if (answer->contains("error")) throw CommError(text(*answer, "error"));
  }
  if (answer->contains("error")) {
    throw ConfigError("node 0 refused this node: " + text(*answer, "error"));
  }
  NodeAssignment result;
  result.first_rank = integer(*answer, "first_rank", 0);
  result.job_id = text(*answer, "job_id");
  std::vector<Peer> peers;
  peers.push_back({std::move(*connection), "node 0"});
  result.link = std::make_unique<Link>(std::move(peers), false);
  return result;
}

}  // namespace

NodeAssignment join_nodes(const NodeRequest& request) {
  if (request.node_rank > 0) return join(request);
  const bool owner = owns_address(request.master_addr);
  if (request.node_rank == 0 && !owner) {
    throw ConfigError("--master_addr " + request.master_addr +
                      " is not an address of this machine, which is node 0 (--node_rank 0)");
  }
  if (!owner) return join(request);
  std::unique_ptr<PortClaim> claim;
  try {
    claim = std::make_unique<PortClaim>(request.master_port, "--master_port");
  } catch (const ConfigError&) {
    if (request.node_rank == 0) throw;
    return join(request);  // another launcher of this machine may be node 0
  }
  const int listener = listen_on(request.master_port);
  if (listener < 0) {
    throw ConfigError("port " + std::to_string(request.master_port) + " (--master_port) was taken");
  }
  NodeAssignment result = Host(request, listener).run();
  result.claim = std::move(claim);
  return result;
}

std::string new_job_id() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", random());
    text += part;
  }
  return text;
}

}  // namespace tessera
