// What collectives between processes ask of a transport, told by one that only writes it down.

#include "tessera/comm/processes/message_exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/memory.h"
#include "tessera/comm/processes/message_group.h"

namespace tessera {
namespace {

constexpr int kMemoryRank = 23;

struct Seen {
  int64_t messages = 0;
  int64_t bytes_sent = 0;
  std::vector<int64_t> in_use;  // of kMemoryRank, when a request ended
};

// Messages that never arrive.
class SilentTransport : public MessageTransport {
 public:
  explicit SilentTransport(Seen& seen) : seen_(seen) {}

  std::unique_ptr<Request> send(const std::byte*, int64_t bytes, int, int32_t) override {
    seen_.bytes_sent += bytes;
    return request();
  }
  std::unique_ptr<Request> recv(std::byte*, int64_t, int, int32_t) override { return request(); }

 private:
  struct Silent : Request {
    explicit Silent(Seen& seen) : seen(seen) {}
    ~Silent() override { seen.in_use.push_back(memory_use(kMemoryRank).current); }
    void wait(Clock::time_point) override { throw Failure("no answer", true); }
    void abort() override {}
    Seen& seen;
  };

  std::unique_ptr<Request> request() {
    ++seen_.messages;
    return std::make_unique<Silent>(seen_);
  }

  Seen& seen_;
};

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

// A request may read or write its memory until it has ended.
TEST(MessageExchange, MemoryOutlivesTheRequestsOfAFailedOne) {
  install_memory_counting();
  const MemoryRankGuard rank(kMemoryRank);
  Seen seen;
  const auto world = std::make_shared<MessageWorld>();
  world->transport = std::make_unique<SilentTransport>(seen);
  const int64_t before = memory_use(kMemoryRank).current;
  int64_t during = 0;
  {
    MessageExchange exchange(world, 1, "exchange");
    at::Tensor large = at::empty({100000}, at::kByte);
    at::Tensor small = at::empty({100}, at::kByte);
    const std::vector<Piece> pieces = {{data_of(large), 100000}, {data_of(small), 100}};
    exchange.recv(1, pieces);
    exchange.send(2, pieces);
    exchange.keep({std::move(large), std::move(small)});
    EXPECT_THROW(exchange.wait(), CommError);
    during = memory_use(kMemoryRank).current;
  }
  EXPECT_GE(during - before, 100000 + 3 * 100);  // with what packs the small ones
  EXPECT_EQ(memory_use(kMemoryRank).current, before);
  EXPECT_EQ(seen.in_use, std::vector<int64_t>(4, during));
}

Seen seen_of_all_reduce(int world, int64_t bytes) {
  Seen seen;
  const ProcessGroup group =
      message_group(std::make_unique<SilentTransport>(seen), 0, world, GroupOptions{});
  group.all_reduce({at::zeros({bytes}, at::kByte)});
  return seen;
}

// Little goes to everybody at once, unless there are many.
TEST(MessageGroup, WhatAnAllReduceSendsDoesNotGrowWithTheWorld) {
  EXPECT_EQ(seen_of_all_reduce(8, 32 << 10).bytes_sent, 7 * (32 << 10));
  EXPECT_EQ(seen_of_all_reduce(1024, 8).bytes_sent, 1023 * 8);
  EXPECT_EQ(seen_of_all_reduce(1024, 8).messages, 2 * 1023);
  // The first of two rounds.
  EXPECT_EQ(seen_of_all_reduce(1024, 16 << 10).bytes_sent, (16 << 10) - 16);
  EXPECT_EQ(seen_of_all_reduce(8, 64 << 10).bytes_sent, 7 * (8 << 10));
}

}  // namespace
}  // namespace tessera
