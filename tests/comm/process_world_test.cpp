// What is special to processes: the meeting, lost peers, time limits, groups over shared links.

#include "tessera/comm/processes/process_world.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tessera/base/error.h"
#include "tests/comm/process_ranks.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string comm_error(const std::function<void()>& run) {
  try {
    run();
  } catch (const CommError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no CommError";
  return "";
}

ProcessWorldOptions options_of(int rank, int world, int port, const std::string& job = "test") {
  ProcessWorldOptions options;
  options.rank = rank;
  options.world = world;
  options.master_addr = "127.0.0.1";
  options.master_port = port;
  options.job = job;
  options.timeout_seconds = 600;
  return options;
}

TEST(ProcessWorld, BusyPortIsNamedAtOnce) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int port = ntohs(address.sin_port);
  const std::string message = comm_error([&] { join_process_world(options_of(0, 2, port)); });
  EXPECT_THAT(message, AllOf(HasSubstr("port " + std::to_string(port)), HasSubstr("in use"),
                             HasSubstr("--master_port")));
  close(listener);
}

TEST(ProcessWorld, RanksThatDoNotComeAreNamed) {
  const int port = test::free_port();
  ProcessWorldOptions options = options_of(0, 4, port);
  options.timeout_seconds = 5;
  std::thread other([&] {
    ProcessWorldOptions second = options;
    second.rank = 2;
    comm_error([&] { join_process_world(second); });
  });
  const std::string message = comm_error([&] { join_process_world(options); });
  other.join();
  EXPECT_THAT(message, AllOf(HasSubstr("ranks 1, 3"), HasSubstr("5 s")));
}

TEST(ProcessWorld, ASecondJobDoesNotJoinTheFirstOnesStore) {
  const int port = test::free_port();
  std::atomic<bool> over{false};
  std::thread first([&] {
    ProcessWorldOptions options = options_of(0, 2, port, "one");
    options.timeout_seconds = 600;
    join_process_world(options);
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const std::string message =
      comm_error([&] { join_process_world(options_of(1, 2, port, "two")); });
  EXPECT_THAT(message, AllOf(HasSubstr("another job"), HasSubstr("one"), HasSubstr("two")));
  const ProcessGroup second = join_process_world(options_of(1, 2, port, "one"));
  over = true;
  first.join();
}

class ProcessTransports : public testing::TestWithParam<test::Transport> {};

INSTANTIATE_TEST_SUITE_P(Transports, ProcessTransports,
                         testing::Values(test::Transport::kSharedMemory, test::Transport::kGloo),
                         [](const auto& info) {
                           return info.param == test::Transport::kGloo ? "Gloo" : "SharedMemory";
                         });

TEST_P(ProcessTransports, ManyStartedAtOnceAndWaitedInAnotherOrder) {
  test::run_process_ranks(3, GetParam(), [](const ProcessGroup& group) {
    constexpr int kOperations = 12;
    std::vector<at::Tensor> shards, full;
    std::vector<Work> works;
    for (int i = 0; i < kOperations; ++i) {
      const int64_t rows = i % 2 == 0 ? 3 : 60000;
      shards.push_back(at::full({rows / 3}, 100 * i + group.rank(), at::kFloat));
      full.push_back(at::zeros({rows}, at::kFloat));
      works.push_back(group.all_gather({full.back()}, {shards.back()}));
    }
    for (int k = 0; k < kOperations; ++k) {
      const int i = group.rank() == 0 ? k : kOperations - 1 - k;
      works[i].wait();
      EXPECT_EQ(full[i][0].item<float>(), 100 * i);
      EXPECT_EQ(full[i][-1].item<float>(), 100 * i + 2);
    }
  });
}

TEST_P(ProcessTransports, GroupsShareTheLinks) {
  test::run_process_ranks(6, GetParam(), [](const ProcessGroup& world) {
    const ProcessGroup rows = world.split({{0, 1, 2}, {3, 4, 5}}, "rows");
    const ProcessGroup columns = world.split({{0, 3}, {1, 4}, {2, 5}}, "columns");
    const ProcessGroup pair =
        rows.split(world.rank() < 3 ? std::vector<std::vector<int>>{{0, 2}, {1}}
                                    : std::vector<std::vector<int>>{{3, 5}, {4}},
                   "pair");
    for (int step = 0; step < 20; ++step) {
      at::Tensor a = at::full({1 + step * 100}, world.rank(), at::kFloat);
      at::Tensor b = at::full({20000}, world.rank(), at::kDouble);
      at::Tensor c = at::full({3}, world.rank(), at::kLong);
      Work first = rows.all_reduce({a});
      Work second = columns.all_reduce({b});
      Work third = pair.all_reduce({c});
      third.wait();
      second.wait();
      first.wait();
      const int row = world.rank() / 3, column = world.rank() % 3;
      ASSERT_EQ(a[0].item<float>(), row == 0 ? 3 : 12);
      ASSERT_EQ(b[7].item<double>(), 2 * column + 3);
      ASSERT_EQ(c[2].item<int64_t>(), column == 1 ? world.rank() : 2 + 6 * row);
    }
  });
}

// Bit for bit what threads compute.
TEST_P(ProcessTransports, SumsAsThreadsDo) {
  const auto sum = [](const ProcessGroup& group, int64_t count) {
    at::Tensor tensor = at::arange(count, at::kFloat).mul(0.1F + group.rank()).sin();
    group.all_reduce({tensor}).wait();
    return tensor;
  };
  for (const int64_t count : {100, 50001}) {
    at::Tensor by_threads;
    run_ranks(3, [&](const ProcessGroup& group) {
      const at::Tensor result = sum(group, count);
      if (group.rank() == 0) by_threads = result;
    });
    test::run_process_ranks(3, GetParam(), [&](const ProcessGroup& group) {
      EXPECT_TRUE(at::equal(sum(group, count), by_threads)) << count;
    });
  }
}

TEST_P(ProcessTransports, ALostPeerIsNamed) {
  const std::string message = comm_error([&] {
    test::run_process_ranks(3, GetParam(), [](const ProcessGroup& world) {
      const ProcessGroup group = world.alias("fsdp");
      at::Tensor tensor = at::zeros({100000});
      group.all_reduce({tensor}).wait();
      if (group.rank() == 1) return;  // its links close
      group.all_reduce({tensor}).wait();
    });
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce"), HasSubstr("group fsdp"), HasSubstr("lost"),
                             HasSubstr("rank 1")));
}

TEST_P(ProcessTransports, TimeOutNamesOperationGroupAndMissingRanks) {
  std::atomic<int> waiting{2};
  std::mutex mutex;
  std::vector<std::string> messages;
  test::run_process_ranks(
      4, GetParam(),
      [&](const ProcessGroup& world) {
        const ProcessGroup group = world.alias("tp");
        group.barrier();
        if (group.rank() == 1 || group.rank() == 3) {
          while (waiting > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        const std::string message = comm_error([&] {
          at::Tensor shard = at::zeros({1});
          at::Tensor full = at::zeros({4});
          group.all_gather({full}, {shard}).wait();
        });
        std::lock_guard lock(mutex);
        messages.push_back(message);
        --waiting;
      },
      /*timeout_seconds=*/10);
  ASSERT_EQ(messages.size(), 2);
  // The first to give up closes its links, so the other may see that before its own time is over.
  EXPECT_THAT(messages, testing::Contains(AllOf(HasSubstr("all_gather"), HasSubstr("group tp"),
                                                HasSubstr("10 s"), HasSubstr("ranks 1, 3"))));
}

TEST_P(ProcessTransports, SendsAreBuffered) {
  test::run_process_ranks(2, GetParam(), [](const ProcessGroup& group) {
    constexpr int kMessages = 10;
    const int peer = 1 - group.rank();
    at::Tensor tensor = at::zeros({100000}, at::kFloat);
    for (int i = 0; i < kMessages; ++i) {
      tensor.fill_(i + 0.5F * group.rank());
      group.send(tensor, peer, 7).wait();
    }
    for (int i = 0; i < kMessages; ++i) {
      group.recv(tensor, peer, 7).wait();
      EXPECT_EQ(tensor[0].item<float>(), i + 0.5F * peer);
      EXPECT_EQ(tensor[-1].item<float>(), i + 0.5F * peer);
    }
  });
}

// What was sent arrives, though the sender needs its group no more.
TEST_P(ProcessTransports, AGroupThatEndsWaitsForItsMessages) {
  const int port = test::free_port();
  std::atomic<bool> asked{false};
  run_ranks(2, [&](const ProcessGroup& threads) {
    ProcessWorldOptions options = options_of(threads.rank(), 2, port);
    options.shared_memory = GetParam() == test::Transport::kSharedMemory;
    ProcessGroup world = join_process_world(options);
    at::Tensor large = at::full({8 << 20}, threads.rank(), at::kFloat);
    if (threads.rank() == 0) {
      world.send(large, 1, 7).wait();
      world = {};
      EXPECT_TRUE(asked);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      asked = true;
      world.recv(large, 0, 7).wait();
      EXPECT_EQ(large[-1].item<float>(), 0);
    }
  });
}

// Of two copies of a Work the second to be waited for has nothing to do.
TEST_P(ProcessTransports, CopiesOfAWorkCompleteItOnce) {
  test::run_process_ranks(2, GetParam(), [](const ProcessGroup& group) {
    for (const int64_t count : {10, 100000}) {
      at::Tensor sum = at::ones({count}, at::kDouble);
      Work work = group.all_reduce({sum});
      Work copy = work;
      work.wait();
      copy.wait();
      EXPECT_TRUE(at::all(sum == 2).item<bool>());
    }
    at::Tensor shard = at::ones({10}, at::kDouble);
    Work work = group.reduce_scatter({shard}, {at::ones({20}, at::kDouble)}, /*accumulate=*/true);
    Work copy = work;
    work.wait();
    copy.wait();
    EXPECT_TRUE(at::all(shard == 3).item<bool>());
  });
}

}  // namespace
}  // namespace tessera
