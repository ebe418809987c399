#include "tessera/launcher/rendezvous.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

#include "tessera/base/error.h"
#include "tests/support/strangers.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A socket that listens on a port of the kernel's choice.
class Listener {
 public:
  Listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(descriptor_, 8);
    socklen_t length = sizeof address;
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(descriptor_); }
  int port() const { return port_; }

 private:
  int descriptor_;
  int port_ = 0;
};

int free_port() { return Listener().port(); }

NodeRequest node(int port, int workers, int local, int node_rank = -1, int timeout = 600) {
  NodeRequest request;
  request.worker_num = workers;
  request.local_worker_num = local;
  request.master_port = port;
  request.node_rank = node_rank;
  request.timeout_seconds = timeout;
  return request;
}

std::future<NodeAssignment> launch(const NodeRequest& request) {
  return std::async(std::launch::async, [request] { return join_nodes(request); });
}

template <typename E>
std::string message_of(std::future<NodeAssignment>& launched) {
  try {
    launched.get();
  } catch (const E& error) {
    return error.what();
  }
  return "joined";
}

std::optional<WorkerFailure> wait_for_failure(NodeLink& link) {
  for (int i = 0; i < 60000; ++i) {
    if (auto failure = link.poll()) return failure;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

// Two of three nodes, after nobody else has come for a while: node 0 says the layout for both.
TEST(Rendezvous, EnoughNodesGoWithoutTheOthers) {
  const int port = free_port();
  const auto elastic = [&](int node_rank) {
    NodeRequest request = node(port, 6, 2, node_rank);
    request.least_workers = 4;
    request.max_restarts = 1;
    request.heartbeat.timeout = std::chrono::milliseconds(300);
    request.layout = [](int present) {
      return StartLayout{present - 1, {"parallelism.data_parallel_shard=3"}, "dp_shard 3"};
    };
    return request;
  };
  auto two = launch(elastic(2));
  auto zero = launch(elastic(0));
  const NodeAssignment a = zero.get(), b = two.get();
  EXPECT_EQ(a.first_rank, 0);
  EXPECT_EQ(b.first_rank, 2);
  for (const NodeAssignment* place : {&a, &b}) {
    EXPECT_EQ(place->layout.used, 3);
    EXPECT_EQ(place->layout.text, "dp_shard 3");
    EXPECT_EQ(place->layout.overrides,
              std::vector<std::string>{"parallelism.data_parallel_shard=3"});
  }
}

TEST(Rendezvous, WithoutALayoutAllNodesAreToldWhy) {
  const int port = free_port();
  NodeRequest zero = node(port, 6, 2, 0), one = node(port, 6, 2, 1);
  zero.least_workers = 4;
  zero.heartbeat.timeout = std::chrono::milliseconds(300);
  zero.layout = [](int present) -> StartLayout {
    throw CommError(std::to_string(present) + " workers are too few");
  };
  auto b = launch(one);
  auto a = launch(zero);
  EXPECT_EQ(message_of<CommError>(a), "4 workers are too few");
  EXPECT_THAT(message_of<CommError>(b), HasSubstr("4 workers are too few"));
}

TEST(Rendezvous, GivenNodeRanksInAnyOrder) {
  const int port = free_port();
  auto two = launch(node(port, 6, 2, 2));
  auto one = launch(node(port, 6, 2, 1));
  auto zero = launch(node(port, 6, 2, 0));
  const NodeAssignment a = zero.get();
  const NodeAssignment b = one.get();
  const NodeAssignment c = two.get();
  EXPECT_EQ(a.first_rank, 0);
  EXPECT_EQ(b.first_rank, 2);
  EXPECT_EQ(c.first_rank, 4);
  EXPECT_EQ(a.job_id.size(), 32u);
  EXPECT_EQ(a.job_id, b.job_id);
  EXPECT_EQ(a.job_id, c.job_id);
}

TEST(Rendezvous, RanksAreAssignedWithoutNodeRanks) {
  const int port = free_port();
  auto first = launch(node(port, 4, 3));
  auto second = launch(node(port, 4, 1));
  const NodeAssignment a = first.get();
  const NodeAssignment b = second.get();
  // Whoever got the port is node 0.
  if (a.first_rank == 0) {
    EXPECT_EQ(b.first_rank, 3);
  } else {
    EXPECT_EQ(b.first_rank, 0);
    EXPECT_EQ(a.first_rank, 1);
  }
}

TEST(Rendezvous, ThePortIsFreeForTheStoreOfRankZero) {
  const int port = free_port();
  auto one = launch(node(port, 2, 1, 1));
  const NodeAssignment zero = join_nodes(node(port, 2, 1, 0));
  const NodeAssignment other = one.get();
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(descriptor, 1), 0);
  ::close(descriptor);
}

TEST(Rendezvous, MissingWorkersAreNamed) {
  const int port = free_port();
  auto one = launch(node(port, 4, 1, 1, 2));
  auto zero = launch(node(port, 4, 2, 0, 2));
  const std::string text = message_of<CommError>(zero);
  EXPECT_THAT(text, AllOf(HasSubstr("3 of 4 workers joined in 2 s (--cluster_time_out)"),
                          HasSubstr("missing rank")));
  EXPECT_THAT(message_of<CommError>(one), HasSubstr("3 of 4"));
}

TEST(Rendezvous, TheMissingRankIsNamed) {
  auto zero = launch(node(free_port(), 4, 3, -1, 1));
  EXPECT_THAT(message_of<CommError>(zero), HasSubstr("3 of 4 workers joined in 1 s "
                                                     "(--cluster_time_out); missing rank 3"));
}

TEST(Rendezvous, NoNodeZero) {
  auto one = launch(node(free_port(), 2, 1, 1, 1));
  EXPECT_THAT(message_of<CommError>(one), AllOf(HasSubstr("cannot reach the launcher of node 0"),
                                                HasSubstr("within 1 s: refused")));
}

TEST(Rendezvous, ContradictionsAreRefused) {
  const int port = free_port();
  auto zero = launch(node(port, 3, 1, 0));
  auto other_size = launch(node(port, 4, 1, 1));
  EXPECT_THAT(message_of<ConfigError>(other_size), HasSubstr("--worker_num is 4 here and 3"));
  auto too_many = launch(node(port, 3, 3, 1));
  EXPECT_THAT(message_of<ConfigError>(too_many), HasSubstr("too many"));
  // Of two that say the same the later one is refused.
  auto one = launch(node(port, 3, 1, 1));
  auto twin = launch(node(port, 3, 1, 1));
  const auto soon = std::chrono::milliseconds(10);
  while (one.wait_for(soon) != std::future_status::ready &&
         twin.wait_for(soon) != std::future_status::ready) {
  }
  if (one.wait_for(soon) == std::future_status::ready) std::swap(one, twin);
  EXPECT_THAT(message_of<ConfigError>(twin), HasSubstr("two nodes have --node_rank 1"));
  auto two = launch(node(port, 3, 1, 2));
  EXPECT_EQ(zero.get().first_rank, 0);
  EXPECT_EQ(one.get().first_rank, 1);
  EXPECT_EQ(two.get().first_rank, 2);
}

TEST(Rendezvous, ABusyPortIsNamedAtOnce) {
  const Listener stranger;
  auto zero = launch(node(stranger.port(), 2, 1, 0));
  EXPECT_THAT(message_of<ConfigError>(zero), HasSubstr("--master_port"));
  auto unnumbered = launch(node(stranger.port(), 2, 1));
  EXPECT_THAT(message_of<ConfigError>(unnumbered), HasSubstr("is not the launcher of this run"));
}

NodeRequest with_secret(NodeRequest request, const std::string& secret) {
  request.secret = JobSecret(secret);
  return request;
}

TEST(Rendezvous, TheSecretIsAskedOfEveryNode) {
  const int port = free_port();
  auto zero = launch(with_secret(node(port, 2, 1, 0), "right"));
  auto wrong = launch(with_secret(node(port, 2, 1, 1), "wrong"));
  testing::internal::CaptureStderr();
  EXPECT_THAT(message_of<ConfigError>(wrong),
              AllOf(HasSubstr("node 0 at 127.0.0.1 refused this node"),
                    HasSubstr("TESSERA_JOB_SECRET there is another one than on node 0")));
  auto without = launch(node(port, 2, 1, 1));
  EXPECT_THAT(message_of<ConfigError>(without),
              HasSubstr("TESSERA_JOB_SECRET is set on node 0 and not there"));
  auto one = launch(with_secret(node(port, 2, 1, 1), "right"));
  EXPECT_EQ(one.get().first_rank, 1);
  EXPECT_EQ(zero.get().first_rank, 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("a node at 127.0.0.1 was refused: TESSERA_JOB_SECRET there is "));
  EXPECT_THAT(said, testing::Not(HasSubstr("right")));
}

TEST(Rendezvous, ANodeThatHasASecretDoesNotJoinWithout) {
  const int port = free_port();
  auto zero = launch(node(port, 2, 1, 0));
  auto one = launch(with_secret(node(port, 2, 1, 1), "mine"));
  EXPECT_THAT(message_of<ConfigError>(one),
              HasSubstr("TESSERA_JOB_SECRET is set there and not on node 0"));
  auto other = launch(node(port, 2, 1, 1));
  EXPECT_EQ(other.get().first_rank, 1);
  zero.get();
}

TEST(Rendezvous, StrangersDoNoHarm) {
  const int port = free_port();
  auto zero = launch(node(port, 2, 1, 0));
  while (test::Strangers(port, 1, 0).connected() == 0) {  // until node 0 listens
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const test::Strangers strangers(port);
  EXPECT_EQ(strangers.connected(), 230);
  auto one = launch(node(port, 2, 1, 1));
  const NodeAssignment at_one = one.get();
  const NodeAssignment at_zero = zero.get();
  EXPECT_EQ(at_one.first_rank, 1);
  EXPECT_FALSE(at_zero.link->poll());
  at_one.link->send_done();
}

TEST(Rendezvous, TheMeetingPlaceListensAtItsAddressOnly) {
  const int port = free_port();
  auto zero = launch(node(port, 2, 1, 0));
  while (test::Strangers(port, 1, 0).connected() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  other.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_NE(::connect(descriptor, reinterpret_cast<const sockaddr*>(&other), sizeof other), 0);
  ::close(descriptor);
  launch(node(port, 2, 1, 1)).get();
  zero.get();
}

class LinkedNodes : public testing::Test {
 protected:
  void SetUp() override {
    const int port = free_port();
    auto two = launch(node(port, 3, 1, 2));
    auto one = launch(node(port, 3, 1, 1));
    zero_ = join_nodes(node(port, 3, 1, 0));
    one_ = one.get();
    two_ = two.get();
  }

  NodeAssignment zero_, one_, two_;
};

TEST_F(LinkedNodes, AFailureReachesAllNodes) {
  WorkerFailure failure;
  failure.rank = 1;
  failure.exit_code = 5;
  failure.report = "rank 1 failed\nits log";
  one_.link->send_failure(failure);
  const auto at_zero = wait_for_failure(*zero_.link);
  ASSERT_TRUE(at_zero);
  EXPECT_EQ(at_zero->rank, 1);
  EXPECT_EQ(at_zero->exit_code, 5);
  EXPECT_THAT(at_zero->report, HasSubstr("its log"));
  const auto at_two = wait_for_failure(*two_.link);
  ASSERT_TRUE(at_two);
  EXPECT_EQ(at_two->exit_code, 5);
  EXPECT_EQ(at_two->report, "on another node: rank 1 failed");
}

TEST_F(LinkedNodes, NodeZeroHearsWhatTheRanksOfOthersWaitFor) {
  RankStates states;
  states[1].step = 4;
  states[1].waits = {{2, "recv in group pp"}};
  one_.link->send_states(1, states);
  const auto at_zero = wait_for_failure(*zero_.link);
  ASSERT_TRUE(at_zero);
  EXPECT_FALSE(at_zero->is_root_cause);
  EXPECT_EQ(at_zero->rank, 1);
  EXPECT_TRUE(zero_.link->decides());
  EXPECT_FALSE(one_.link->decides());
  ASSERT_TRUE(zero_.link->states().contains(1));
  EXPECT_EQ(zero_.link->states().at(1).waits.at(0).peer, 2);
  one_.link.reset();  // it ended because of that: no other failure
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(zero_.link->poll());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_F(LinkedNodes, ALauncherThatIsGoneEndsTheOthers) {
  two_.link.reset();
  const auto at_zero = wait_for_failure(*zero_.link);
  ASSERT_TRUE(at_zero);
  EXPECT_EQ(at_zero->exit_code, 3);
  EXPECT_EQ(at_zero->report, "the launcher of node 2 is gone");
  EXPECT_TRUE(wait_for_failure(*one_.link));
}

TEST_F(LinkedNodes, ALauncherThatIsDoneIsMissedByNobody) {
  zero_.link->send_done();
  zero_.link.reset();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(one_.link->poll());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(PortClaim, OneJobAPort) {
  const int port = free_port();
  const PortClaim first("127.0.0.1", port, "--master_port");
  try {
    const PortClaim second("127.0.0.1", port, "--master_port");
    FAIL() << "claimed twice";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("port " + std::to_string(port) + " (--master_port)"),
                                    HasSubstr("another job"), HasSubstr("free is for example")));
  }
}

TEST(PortClaim, AStrangerIsSeenAndAReleasedPortIsFree) {
  int port = 0;
  {
    const Listener stranger;
    port = stranger.port();
    EXPECT_THROW(PortClaim("127.0.0.1", port, "--master_port"), ConfigError);
  }
  { const PortClaim claim("127.0.0.1", port, "--master_port"); }
  const PortClaim again("127.0.0.1", port, "--master_port");
}

TEST(Addresses, OursAndOthers) {
  EXPECT_TRUE(owns_address("127.0.0.1"));
  EXPECT_TRUE(owns_address("localhost"));
  EXPECT_FALSE(owns_address("192.0.2.1"));  // for documentation only (RFC 5737)
  EXPECT_THROW(owns_address("no.such.host.invalid"), ConfigError);
}

// Launchers meet again after a failure; in place of the lost one comes a new one.
TEST(Rendezvous, ALaterStartHasAHigherNumberAndTheSameJob) {
  const int port = free_port();
  const auto meet = [&](const NodeRequest& zero, const NodeRequest& one) {
    auto two = launch(node(port, 3, 1, 2));  // new each time
    auto other = launch(one);
    NodeAssignment host = join_nodes(zero);
    for (const NodeAssignment& each : {other.get(), two.get()}) {
      EXPECT_EQ(each.job_id, host.job_id);
      EXPECT_EQ(each.generation, host.generation);
      EXPECT_EQ(each.max_restarts, 7);
    }
    return host;
  };
  NodeRequest zero = node(port, 3, 1, 0), one = node(port, 3, 1, 1);
  zero.max_restarts = 7;  // that of node 0 counts
  NodeAssignment first = meet(zero, one);
  EXPECT_EQ(first.generation, 1);
  zero.earlier = {first.job_id, 1, true};
  one.earlier = {first.job_id, 1, false};
  first.claim.reset();
  const NodeAssignment second = meet(zero, one);
  EXPECT_EQ(second.generation, 2);
  EXPECT_EQ(second.job_id, first.job_id);
}

// Node 0 was lost: a new launcher in its place learns of the run from the others.
TEST(Rendezvous, ANewNodeZeroTakesTheNumberFromTheOthers) {
  const int port = free_port();
  NodeRequest request = node(port, 2, 1, 1);
  request.earlier = {"run", 4, false};
  auto one = launch(request);
  const NodeAssignment zero = join_nodes(node(port, 2, 1, 0));
  EXPECT_EQ(zero.job_id, "run");
  EXPECT_EQ(zero.generation, 5);
  EXPECT_EQ(one.get().generation, 5);
}

TEST(Rendezvous, WhoWasInAnotherRunIsRefused) {
  const int port = free_port();
  NodeRequest mine = node(port, 3, 1, 0);
  mine.earlier = {"mine", 1, true};
  NodeRequest other = node(port, 3, 1, 1);
  other.earlier = {"other", 1, false};
  auto zero = launch(mine);
  auto one = launch(other);
  EXPECT_THAT(message_of<ConfigError>(one), HasSubstr("it was in another run"));
  auto right = launch(node(port, 3, 2, 1));  // lets node 0 end
  zero.get();
  right.get();
}

// A launcher that will start again keeps asking while a run that has begun has the port.
TEST(Rendezvous, AStrangerIsWaitedForByARunThatStartsAgain) {
  auto stranger = std::make_unique<Listener>();
  const int port = stranger->port();
  NodeRequest request = node(port, 2, 1, 1);
  request.max_restarts = 1;
  auto one = launch(request);
  EXPECT_EQ(one.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  stranger.reset();
  const NodeAssignment zero = join_nodes(node(port, 2, 1, 0));
  EXPECT_EQ(one.get().first_rank, 1);
}

}  // namespace
}  // namespace tessera
