#include "tessera/launcher/node_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace tessera {
namespace {

std::optional<WorkerFailure> wait_for_failure(NodeLink& link) {
  for (int i = 0; i < 60000; ++i) {
    if (auto failure = link.poll()) return failure;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

struct Pair {
  std::unique_ptr<NodeLink> hub;
  std::unique_ptr<NodeLink> other;
};

Pair linked(Heartbeat heartbeat) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const auto link = [&](int end, const char* peer, bool is_hub) {
    std::vector<NodePeer> peers;
    peers.push_back({Connection(end), peer});
    return make_node_link(std::move(peers), is_hub, heartbeat);
  };
  return {link(ends[0], "node 1", true), link(ends[1], "node 0", false)};
}

TEST(NodeLinkOfLaunchers, ASilentOneIsLost) {
  Heartbeat heartbeat;
  heartbeat.timeout = std::chrono::milliseconds(200);
  const Pair pair = linked(heartbeat);
  const std::optional<WorkerFailure> failure = wait_for_failure(*pair.hub);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->exit_code, 3);
  EXPECT_EQ(failure->report,
            "the launcher of node 1 has said nothing for 0.2 s (--heartbeat_timeout)");
}

TEST(NodeLinkOfLaunchers, OneThatBeatsIsNot) {
  Heartbeat heartbeat;
  heartbeat.interval = std::chrono::milliseconds(1);
  heartbeat.timeout = std::chrono::hours(1);
  const Pair pair = linked(heartbeat);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(pair.hub->poll());
    EXPECT_FALSE(pair.other->poll());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(NodeLinkOfLaunchers, NodeZeroSaysWhetherTheRunStartsAgain) {
  for (const bool again : {true, false}) {
    const Pair pair = linked({});
    pair.hub->send_verdict(again);
    EXPECT_EQ(pair.other->await_verdict(std::chrono::hours(1)), again);
  }
  Heartbeat heartbeat;
  heartbeat.timeout = std::chrono::milliseconds(100);
  const Pair silent = linked(heartbeat);  // the network has parted
  EXPECT_EQ(silent.other->await_verdict(std::chrono::hours(1)), std::nullopt);
  Pair pair = linked({});
  pair.hub.reset();  // its launcher was killed
  EXPECT_EQ(pair.other->await_verdict(std::chrono::hours(1)), std::nullopt);
}

}  // namespace
}  // namespace tessera
