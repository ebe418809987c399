#include "tessera/launcher/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/connection.h"
#include "tessera/launcher/hosts/port.h"
#include "tessera/launcher/hosts/reach.h"
#include "tessera/launcher/node_link.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr int kProtocol = 4;                    // of the messages below
constexpr std::chrono::seconds kAnswerTime{5};  // for a launcher to say that it is one
constexpr std::chrono::seconds kVerdictSlack{5};
constexpr std::chrono::milliseconds kAskAgain{500};
constexpr int kMostWarnings = 20;  // of nodes that are refused: strangers shall not fill the log

std::string place(const NodeRequest& request) {
  return request.master_addr + ":" + std::to_string(request.master_port) +
         " (--master_addr, --master_port)";
}

// --- node 0 --------------------------------------------------------------------------------------

struct Joined {
  int node_rank = -1;
  int workers = 0;
  std::optional<Connection> connection;  // none: this launcher itself
};

struct Guest {  // connected, not heard yet
  Connection connection;
  std::string challenge;
  Clock::time_point since;
};

// What a node signs, and node 0 in its answer: both have chosen a part of it.
std::vector<std::string> signed_parts(const char* who, const std::string& challenge,
                                      const json& hello) {
  return {who,
          challenge,
          text_of(hello, "challenge"),
          std::to_string(integer_of(hello, "worker_num", 0)),
          std::to_string(integer_of(hello, "local_worker_num", 0)),
          std::to_string(integer_of(hello, "node_rank", -1))};
}

class Host {
 public:
  Host(const NodeRequest& request, int listener)
      : request_(request),
        listener_(listener),
        job_id_(request.earlier.job_id),
        generation_(request.earlier.generation) {
    joined_.push_back({request.node_rank, request.local_worker_num, std::nullopt});
  }
  ~Host() {
    if (listener_ >= 0) ::close(listener_);
  }

  NodeAssignment run() {
    const Clock::time_point deadline =
        Clock::now() + std::chrono::seconds(request_.timeout_seconds);
    while (workers() < request_.worker_num && !goes_with_fewer()) {
      if (Clock::now() >= deadline) give_up();
      std::vector<pollfd> wake = {{listener_, POLLIN, 0}};
      for (const Guest& guest : guests_) {
        wake.push_back({guest.connection.descriptor(), POLLIN, 0});
      }
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

  // Enough are there, and for a while nobody else has come.
  bool goes_with_fewer() {
    if (workers() != waited_with_) {
      waited_with_ = workers();
      waits_since_ = Clock::now();
    }
    const bool enough = request_.least_workers > 0 && waited_with_ >= request_.least_workers;
    return enough && Clock::now() - waits_since_ >= request_.heartbeat.timeout;
  }

  // Who connects is told what to sign, if anything, and has a moment to say who it is.
  void accept_guests() {
    pollfd waiting{listener_, POLLIN, 0};
    while (::poll(&waiting, 1, 0) > 0) {
      const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) return;
      Guest guest{Connection(descriptor), random_digits(), Clock::now()};
      json greeting = {{"tessera", kProtocol}};
      if (request_.secret.is_set()) greeting["challenge"] = guest.challenge;
      guest.connection.send(greeting);
      guests_.push_back(std::move(guest));
    }
  }

  void hear_guests() {
    for (size_t i = 0; i < guests_.size();) {
      const std::optional<json> hello = guests_[i].connection.receive();
      const bool silent = !hello && !guests_[i].connection.closed();
      if (silent && Clock::now() < guests_[i].since + kAnswerTime) {
        ++i;
        continue;
      }
      Guest guest = std::move(guests_[i]);
      guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
      if (hello) admit(std::move(guest), *hello);
    }
  }

  // Why this one may not join; empty: it may.
  std::string refusal_of(const Guest& guest, const json& hello) const {
    const int node_rank = integer_of(hello, "node_rank", -1);
    const int count = integer_of(hello, "local_worker_num", 0);
    const int total = integer_of(hello, "worker_num", 0);
    if (integer_of(hello, "tessera", 0) != kProtocol || count < 1) {
      return "not a launcher of this version of tessera";
    }
    const std::string signature = text_of(hello, "signature");
    if (!request_.secret.is_set() && !signature.empty()) {
      return std::string(JobSecret::kVariable) + " is set there and not on node 0";
    }
    if (request_.secret.is_set() &&
        !request_.secret.verify(signed_parts("node", guest.challenge, hello), signature)) {
      return std::string(JobSecret::kVariable) + (signature.empty()
                                                      ? " is set on node 0 and not there"
                                                      : " there is another one than on node 0");
    }
    if (total != request_.worker_num) {
      return "--worker_num is " + std::to_string(total) + " here and " +
             std::to_string(request_.worker_num) + " on node 0";
    }
    if (count > request_.worker_num - workers()) {
      return std::to_string(workers()) + " of " + std::to_string(request_.worker_num) +
             " workers have joined already; " + std::to_string(count) + " more are too many";
    }
    if ((node_rank < 0) != (request_.node_rank < 0)) {
      return "give --node_rank on every node or on none";
    }
    const std::string job = text_of(hello, "job");
    if (!job.empty() && !job_id_.empty() && job != job_id_) {
      return "it was in another run that uses this port";
    }
    for (const Joined& node : joined_) {
      if (node_rank >= 0 && node.node_rank == node_rank) {
        return "two nodes have --node_rank " + std::to_string(node_rank);
      }
    }
    return "";
  }

  void admit(Guest guest, const json& hello) {
    const std::string refusal = refusal_of(guest, hello);
    if (!refusal.empty()) {
      if (++refused_ <= kMostWarnings) {
        log_warning("a node at " + guest.connection.peer_address() + " was refused: " + refusal);
      }
      guest.connection.send({{"error", refusal}});
      return;
    }
    json welcome = {{"welcome", true}};
    if (request_.secret.is_set()) {
      welcome["signature"] = request_.secret.sign(signed_parts("node 0", guest.challenge, hello));
    }
    guest.connection.send(welcome);
    if (job_id_.empty()) job_id_ = text_of(hello, "job");
    generation_ = std::max<int64_t>(generation_, integer_of(hello, "generation", 0));
    joined_.push_back({integer_of(hello, "node_rank", -1), integer_of(hello, "local_worker_num", 0),
                       std::move(guest.connection)});
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
    tell_all({{"error", report}});
    throw CommError(report);
  }

  void tell_all(const json& message) {
    for (Joined& node : joined_) {
      if (node.connection) node.connection->send(message);
    }
  }

  NodeAssignment assign() {
    // Rank 0 is this node's: its store listens at master_addr.
    if (request_.node_rank >= 0) {
      std::sort(joined_.begin(), joined_.end(),
                [](const Joined& a, const Joined& b) { return a.node_rank < b.node_rank; });
    }
    NodeAssignment result;
    if (request_.least_workers > 0) {
      try {
        result.layout = request_.layout(workers());
      } catch (const CommError& error) {
        tell_all({{"error", error.what()}});
        throw;
      }
    }
    ::close(listener_);
    listener_ = -1;
    result.job_id = job_id_.empty() ? new_job_id() : job_id_;
    result.generation = generation_ + 1;
    result.max_restarts = request_.max_restarts;
    std::vector<NodePeer> peers;
    int next = 0;
    for (size_t i = 0; i < joined_.size(); ++i) {
      Joined& node = joined_[i];
      if (node.connection) {
        node.connection->send({{"first_rank", next},
                               {"job_id", result.job_id},
                               {"generation", result.generation},
                               {"used", result.layout.used},
                               {"overrides", result.layout.overrides},
                               {"layout", result.layout.text},
                               {"max_restarts", result.max_restarts}});
        peers.push_back({std::move(*node.connection), "node " + std::to_string(i)});
      } else {
        result.first_rank = next;
      }
      next += node.workers;
    }
    result.link = make_node_link(std::move(peers), true, request_.heartbeat);
    return result;
  }

  const NodeRequest& request_;
  int listener_;
  std::vector<Joined> joined_;
  std::vector<Guest> guests_;
  int refused_ = 0;
  int waited_with_ = 0;  // workers, and since when they have been so many
  Clock::time_point waits_since_{};
  std::string job_id_;      // of a run that starts again; empty: nobody was in one
  int64_t generation_ = 0;  // the last one of which somebody knows
};

// --- the other nodes -----------------------------------------------------------------------------

ReachOptions reach_options(const NodeRequest& request) {
  ReachOptions options;
  options.what = "the launcher of node 0 (--master_addr, --master_port)";
  options.host = request.master_addr;
  options.port = request.master_port;
  options.limit = std::to_string(request.timeout_seconds) + " s";
  options.deadline = Clock::now() + std::chrono::seconds(request.timeout_seconds);
  return options;
}

// What this node says of itself to what listens at node 0's place, signed if there is a secret.
json hello_of(const NodeRequest& request, const json& greeting) {
  json hello = {{"tessera", kProtocol},
                {"worker_num", request.worker_num},
                {"local_worker_num", request.local_worker_num},
                {"node_rank", request.node_rank},
                {"job", request.earlier.job_id},
                {"generation", request.earlier.generation},
                {"challenge", random_digits()}};
  if (request.secret.is_set()) {
    hello["signature"] =
        request.secret.sign(signed_parts("node", text_of(greeting, "challenge"), hello));
  }
  return hello;
}

// Nobody can be joined there at this moment; later perhaps.
struct NotYet {
  std::string why;
  bool is_stranger = false;  // something else listens there
};

NodeAssignment join_once(const NodeRequest& request, const ReachOptions& options) {
  const Reached reached = reach(options);
  Connection connection(reached.descriptor);
  const auto stranger = [&] {
    return NotYet{
        "what listens at " + place(request) +
            " is not the launcher of this run: another program or a run that has begun has the "
            "port",
        true};
  };
  const std::optional<json> greeting = connection.receive_until(Clock::now() + kAnswerTime);
  if (!greeting || integer_of(*greeting, "tessera", 0) != kProtocol) throw stranger();
  const json hello = hello_of(request, *greeting);
  connection.send(hello);
  std::optional<json> answer = connection.receive_until(Clock::now() + kAnswerTime);
  if (!answer) throw stranger();
  if (answer->contains("welcome")) {
    const bool right =
        request.secret.verify(signed_parts("node 0", text_of(*greeting, "challenge"), hello),
                              text_of(*answer, "signature"));
    if (request.secret.is_set() && !right) {
      throw ConfigError("what listens at " + place(request) + ", " + reached.address +
                        ", does not know this node's " + JobSecret::kVariable);
    }
    answer = connection.receive_until(options.deadline + kVerdictSlack);
    if (!answer) {
      throw NotYet{"the launcher of node 0 at " + place(request) + " is gone"};
    }
    if (answer->contains("error")) throw CommError(text_of(*answer, "error"));
  }
  if (answer->contains("error")) {
    throw ConfigError("node 0 at " + reached.address +
                      " refused this node: " + text_of(*answer, "error"));
  }
  NodeAssignment result;
  result.first_rank = integer_of(*answer, "first_rank", 0);
  result.job_id = text_of(*answer, "job_id");
  result.generation = integer_of(*answer, "generation", 1);
  result.max_restarts = integer_of(*answer, "max_restarts", 0);
  result.layout.used = integer_of(*answer, "used", 0);
  result.layout.text = text_of(*answer, "layout");
  if (const auto list = answer->find("overrides"); list != answer->end() && list->is_array()) {
    for (const json& item : *list) {
      if (item.is_string()) result.layout.overrides.push_back(item.get<std::string>());
    }
  }
  std::vector<NodePeer> peers;
  peers.push_back({std::move(connection), "node 0"});
  result.link = make_node_link(std::move(peers), false, request.heartbeat);
  return result;
}

// A run that may start again goes on asking: node 0 may be about to.
NodeAssignment join(const NodeRequest& request) {
  const ReachOptions options = reach_options(request);
  const bool asks_again = request.max_restarts > 0 || !request.earlier.job_id.empty();
  for (;;) {
    try {
      return join_once(request, options);
    } catch (const NotYet& not_yet) {
      const bool over = Clock::now() + kAskAgain >= options.deadline;
      if (not_yet.is_stranger && !asks_again) throw ConfigError(not_yet.why);
      if (over || !asks_again) throw CommError(not_yet.why);
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

}  // namespace

NodeAssignment join_nodes(const NodeRequest& request, std::unique_ptr<PortClaim> claim) {
  const bool is_back = !request.earlier.job_id.empty();
  if (request.node_rank > 0 || (is_back && !request.earlier.was_node_0)) return join(request);
  await_name(reach_options(request));
  const bool owner = owns_address(request.master_addr);
  if (request.node_rank == 0 && !owner) {
    throw ConfigError("--master_addr " + request.master_addr +
                      " is not an address of this machine, which is node 0 (--node_rank 0)");
  }
  if (!owner) return join(request);
  try {
    if (!claim) {
      claim =
          std::make_unique<PortClaim>(request.master_addr, request.master_port, "--master_port",
                                      request.node_rank == 0 ? port_patience(request.max_restarts)
                                                             : std::chrono::milliseconds(0));
    }
  } catch (const ConfigError&) {
    if (request.node_rank == 0) throw;
    return join(request);  // another launcher of this machine may be node 0
  }
  NodeAssignment result = Host(request, listen_at(reach_options(request)).descriptor).run();
  result.claim = std::move(claim);
  return result;
}

std::chrono::milliseconds port_patience(int max_restarts) {
  return max_restarts > 0 ? std::chrono::milliseconds(20000) : std::chrono::milliseconds(0);
}

std::string new_job_id() { return random_digits(); }

}  // namespace tessera
