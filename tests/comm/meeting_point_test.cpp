#include "tessera/comm/processes/meeting_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tessera/base/error.h"
#include "tessera/launcher/hosts/reach.h"
#include "tests/comm/process_ranks.h"
#include "tests/support/strangers.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

// What channels rely on that connect at once: a client that waits for a key holds up no other.
TEST(MeetingPoint, AClientOfTheStoreWaitsAlone) {
  MeetingOptions options;
  options.master_port = test::free_port();
  options.timeout = std::chrono::seconds(600);
  MeetingPoint point(options);
  const auto first = point.store().clone();
  const auto second = point.store().clone();
  auto waiting = std::async(std::launch::async, [&] { return first->get("key"); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  second->set("key", std::vector<uint8_t>{7});
  EXPECT_EQ(waiting.get(), std::vector<uint8_t>{7});
  EXPECT_EQ(point.get("key"), "\7");
}

MeetingOptions of_rank(int rank, int port, const std::string& secret = "",
                       std::chrono::seconds timeout = std::chrono::seconds(600)) {
  MeetingOptions options;
  options.rank = rank;
  options.world = 2;
  options.master_port = port;
  options.job = "job";
  options.timeout = timeout;
  options.secret = JobSecret(secret);
  return options;
}

std::future<std::string> meet(const MeetingOptions& options) {
  return std::async(std::launch::async, [options]() -> std::string {
    try {
      MeetingPoint point(options);
      const std::string names = point.exchange("name", std::to_string(options.rank)).at(0);
      if (options.rank == 0) {
        point.get("end");  // rank 0 serves until the other has read
      } else {
        point.set("end", "read");
      }
      return names + "met";
    } catch (const CommError& error) {
      return error.what();
    }
  });
}

TEST(MeetingPoint, TheSecretIsAskedOfEveryRankAndAWrongOneToldOnBothSides) {
  const int port = test::free_port();
  testing::internal::CaptureStderr();
  auto zero = meet(of_rank(0, port, "right"));
  const std::string at = "rank 0 at 127.0.0.1:" + std::to_string(port) + " (127.0.0.1)";
  EXPECT_EQ(meet(of_rank(1, port, "wrong")).get(),
            at + " refused this rank: TESSERA_JOB_SECRET is another one there");
  EXPECT_EQ(meet(of_rank(1, port)).get(),
            at + " asks for TESSERA_JOB_SECRET, which is not set here");
  auto one = meet(of_rank(1, port, "right"));
  EXPECT_EQ(one.get(), "0met");
  EXPECT_EQ(zero.get(), "0met");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("rank 1 at 127.0.0.1 was refused: TESSERA_JOB_SECRET is another"));
  EXPECT_THAT(said, HasSubstr("rank 1 at 127.0.0.1 was refused: TESSERA_JOB_SECRET is not set"));
}

TEST(MeetingPoint, ARankThatHasASecretDoesNotJoinWithout) {
  const int port = test::free_port();
  testing::internal::CaptureStderr();
  auto zero = meet(of_rank(0, port));
  EXPECT_THAT(meet(of_rank(1, port, "mine")).get(), HasSubstr("is set here, and not for rank 0"));
  EXPECT_EQ(meet(of_rank(1, port)).get(), "0met");
  EXPECT_EQ(zero.get(), "0met");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("was refused: TESSERA_JOB_SECRET is set there, and not here"));
}

TEST(MeetingPoint, KeysLieBelowAPrefixOfTheSecret) {
  const int port = test::free_port();
  MeetingOptions options = of_rank(0, port, "right");
  options.world = 1;
  MeetingPoint point(options);
  point.set("key", "value");
  c10d::TCPStoreOptions store;
  store.port = static_cast<uint16_t>(port);
  c10d::TCPStore stranger("127.0.0.1", store);
  EXPECT_FALSE(stranger.check({"tessera/job/key"}));
  EXPECT_EQ(point.get("key"), "value");
}

TEST(MeetingPoint, WhyRankZeroIsNotReachedIsToldWithoutFrames) {
  MeetingOptions refused = of_rank(1, test::free_port(), "", std::chrono::seconds(1));
  refused.patience = std::chrono::milliseconds(300);
  testing::internal::CaptureStderr();
  const std::string why = meet(refused).get();
  EXPECT_EQ(why, "cannot reach rank 0 at 127.0.0.1:" + std::to_string(refused.master_port) +
                     " within 1 s: refused (nobody listens there)");
  MeetingOptions unknown = refused;
  unknown.master_addr = "no.such.host.invalid";
  EXPECT_THAT(meet(unknown).get(), HasSubstr("within 1 s: no such host ("));
  unknown.rank = 0;
  EXPECT_THAT(meet(unknown).get(), HasSubstr("within 1 s: no such host ("));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("yet: refused (nobody listens there); tries until 1 s are over"));
  EXPECT_THAT(said, Not(HasSubstr("frame #")));
}

TEST(MeetingPoint, StrangersDoNoHarmBeforeAndDuringARun) {
  const int port = test::free_port();
  auto zero = std::async(std::launch::async,
                         [&] { return std::make_unique<MeetingPoint>(of_rank(0, port)); });
  while (test::Strangers(port, 1, 0).connected() == 0) {  // until it listens
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const test::Strangers before(port);
  MeetingPoint one(of_rank(1, port));
  const auto point = zero.get();
  const test::Strangers during(port);
  EXPECT_EQ(during.connected(), 230);
  point->set("key", "value");
  EXPECT_EQ(one.get("key"), "value");
}

TEST(MeetingPoint, TheStoreListensAtItsAddressOnly) {
  MeetingOptions options = of_rank(0, test::free_port());
  options.world = 1;
  const MeetingPoint point(options);
  EXPECT_EQ(test::Strangers(options.master_port, 1, 0).connected(), 1);
  ReachOptions other;
  other.host = "127.0.0.2";
  other.port = options.master_port;
  other.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  EXPECT_THROW(reach(other), CommError);
}

}  // namespace
}  // namespace tessera
