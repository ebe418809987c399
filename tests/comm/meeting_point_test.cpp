#include "tessera/comm/processes/meeting_point.h"

#include <gtest/gtest.h>

#include <future>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/comm/process_ranks.h"

namespace tessera {
namespace {

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

}  // namespace
}  // namespace tessera
