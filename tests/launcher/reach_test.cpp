#include "tessera/launcher/hosts/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

ReachOptions options(const std::string& host, int port, std::chrono::milliseconds timeout) {
  ReachOptions result;
  result.what = "rank 0";
  result.host = host;
  result.port = port;
  result.limit = std::to_string(timeout.count()) + " ms";
  result.deadline = Clock::now() + timeout;
  result.patience = std::chrono::milliseconds(300);
  return result;
}

struct Failed {
  std::string error;
  std::string said;
};

template <typename Call>
Failed failure_of(const Call& call, const ReachOptions& place) {
  Failed failed;
  testing::internal::CaptureStderr();
  try {
    ::close(call(place).descriptor);
    failed.error = "reached";
  } catch (const CommError& error) {
    failed.error = error.what();
  }
  failed.said = testing::internal::GetCapturedStderr();
  return failed;
}

int port_of(int descriptor) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

TEST(Reach, TheCauseIsSaidOnceAndInTheEnd) {
  const int port = [] {
    const Reached free = listen_at(options("127.0.0.1", 0, std::chrono::seconds(600)));
    const int number = port_of(free.descriptor);
    ::close(free.descriptor);
    return number;
  }();
  const std::string place = "127.0.0.1:" + std::to_string(port);
  const Failed refused =
      failure_of(reach, options("127.0.0.1", port, std::chrono::milliseconds(900)));
  EXPECT_EQ(refused.error,
            "cannot reach rank 0 at " + place + " within 900 ms: refused (nobody listens there)");
  EXPECT_EQ(refused.said,
            "cannot reach rank 0 at " + place +
                " yet: refused (nobody listens there); tries until 900 ms are over\n");
  const Failed unknown =
      failure_of(reach, options("no.such.host.invalid", 8118, std::chrono::milliseconds(900)));
  EXPECT_THAT(unknown.error,
              AllOf(HasSubstr("no.such.host.invalid:8118 within 900 ms: no such host ("),
                    Not(HasSubstr("\n"))));
  EXPECT_THAT(unknown.said, HasSubstr("yet: no such host ("));
}

TEST(Reach, TheTimeIsSpentOnce) {
  const auto start = Clock::now();
  failure_of(reach, options("127.0.0.1", 1, std::chrono::milliseconds(500)));
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(500));
}

TEST(Reach, SomebodyWhoComesLateIsReached) {
  const Reached early = listen_at(options("localhost", 0, std::chrono::seconds(600)));
  const int port = port_of(early.descriptor);
  ::close(early.descriptor);
  Reached late;
  std::thread server([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    late = listen_at(options("localhost", port, std::chrono::seconds(600)));
  });
  const Reached reached = reach(options("localhost", port, std::chrono::seconds(600)));
  server.join();
  EXPECT_EQ(reached.address, late.address);
  ::close(reached.descriptor);
  ::close(late.descriptor);
}

TEST(Reach, ListensAtOneAddressOnly) {
  const Reached own = listen_at(options("127.0.0.1", 0, std::chrono::seconds(600)));
  const int port = port_of(own.descriptor);
  EXPECT_EQ(own.address, "127.0.0.1");
  // Another address of this machine is not served.
  EXPECT_THAT(failure_of(reach, options("127.0.0.2", port, std::chrono::milliseconds(100))).error,
              HasSubstr("refused"));
  EXPECT_THAT(
      failure_of(listen_at, options("127.0.0.1", port, std::chrono::milliseconds(100))).error,
      HasSubstr("is in use on 127.0.0.1"));
  ::close(own.descriptor);
  EXPECT_THAT(
      failure_of(listen_at, options("192.0.2.1", port, std::chrono::milliseconds(100))).error,
      HasSubstr("it is no address of this machine"));
}

TEST(Reach, CausesHaveNames) {
  EXPECT_THAT(cause_of(EHOSTUNREACH), HasSubstr("unreachable"));
  EXPECT_THAT(cause_of(ENETUNREACH), HasSubstr("unreachable"));
  EXPECT_THAT(cause_of(ETIMEDOUT), HasSubstr("unreachable"));
  EXPECT_THAT(cause_of(EAFNOSUPPORT), HasSubstr("wrong family"));
}

}  // namespace
}  // namespace tessera
