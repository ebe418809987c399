#include "tessera/comm/turns.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "tessera/base/timeline.h"
#include "tessera/comm/memory.h"
#include "tests/comm/process_ranks.h"

namespace tessera::test {
namespace {

TEST(Turns, PassAtEveryWaitAndAtTheEnd) {
  std::string order;
  const auto part = [&order](char name, int waits) {
    return [&order, name, waits] {
      for (int i = 0; i < waits; ++i) {
        order += name;
        order += std::to_string(i);
        pass_turn();
      }
      order += name;
      order += '.';
    };
  };
  run_in_turns(part('a', 2), part('b', 2));
  EXPECT_EQ(order, "a0b0a1b1a.b.");
  order.clear();
  run_in_turns(part('a', 0), part('b', 2));
  EXPECT_EQ(order, "a.b0b1b.");
  order.clear();
  run_in_turns(part('a', 3), part('b', 1));
  EXPECT_EQ(order, "a0b0a1b.a2a.");
}

TEST(Turns, NothingPassesOutside) {
  pass_turn();
  EXPECT_EQ(timeline_of_turn(), nullptr);
}

TEST(Turns, AnErrorEndsTheOtherAndIsThrown) {
  for (const bool first_fails : {false, true}) {
    bool other_went_on = false;
    const auto failing = [] {
      pass_turn();
      throw std::invalid_argument("mine");
    };
    const auto other = [&] {
      pass_turn();
      pass_turn();
      other_went_on = true;
    };
    EXPECT_THROW(first_fails ? run_in_turns(failing, other) : run_in_turns(other, failing),
                 std::invalid_argument);
    EXPECT_FALSE(other_went_on);
  }
  bool began = false;
  EXPECT_THROW(
      run_in_turns([] { throw std::invalid_argument("before any wait"); }, [&] { began = true; }),
      std::invalid_argument);
  EXPECT_FALSE(began);
}

TEST(Turns, TheSecondThreadIsTheSameRank) {
  install_memory_counting();
  const MemoryRankGuard memory(17);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  std::thread::id second;
  run_in_turns([] {},
               [&] {
                 second = std::this_thread::get_id();
                 EXPECT_EQ(memory_rank(), 17);
                 EXPECT_EQ(at::get_num_threads(), 1);
               });
  EXPECT_NE(second, std::this_thread::get_id());
  at::set_num_threads(threads);
}

// Whoever records it, an event is of the part whose turn it is.
TEST(Turns, EventsAreOfThePartWhoseTurnItIs) {
  const auto record = [](Timeline& timeline) {
    std::thread([&] { const TimelineSpan span(&timeline, "work"); }).join();
  };
  for (const int waits : {0, 2}) {  // the second ends last, or first
    Timeline timeline;
    run_in_turns(
        [&] {
          for (int i = 0; i < waits; ++i) pass_turn();
          record(timeline);
        },
        [&] { record(timeline); }, &timeline);
    record(timeline);
    ASSERT_EQ(timeline.events().size(), 3U);
    EXPECT_EQ(timeline.events()[0].second, waits > 0);
    EXPECT_EQ(timeline.events()[1].second, waits == 0);
    EXPECT_FALSE(timeline.events()[2].second);
  }
}

at::Tensor gathered(const ProcessGroup& world, double value) {
  at::Tensor full = at::zeros({world.size()}, at::kDouble);
  world.all_gather({full}, {at::full({1}, value + world.rank(), at::kDouble)}).wait();
  return full;
}

class TurnsOfRanks : public testing::TestWithParam<Transport> {};

// Parts of unequal length over one group: every rank starts the same operations in the same order.
TEST_P(TurnsOfRanks, CollectivesOfBothMatch) {
  run_process_ranks(3, GetParam(), [](const ProcessGroup& world) {
    for (int round = 0; round < 3; ++round) {
      const auto part = [&](int waits, double value) {
        return [&world, waits, value] {
          for (int i = 0; i < waits; ++i) {
            const at::Tensor full = gathered(world, value + 10 * i);
            for (int r = 0; r < world.size(); ++r) {
              EXPECT_EQ(full[r].item<double>(), value + 10 * i + r);
            }
          }
        };
      };
      run_in_turns(part(4, 100), part(7, 1000));
    }
  });
}

// As a prefetched gather that both parts need.
TEST_P(TurnsOfRanks, BothMayWaitForOne) {
  run_process_ranks(2, GetParam(), [](const ProcessGroup& world) {
    at::Tensor sum = at::ones({100000}, at::kDouble);
    Work work = world.all_reduce({sum});
    const auto part = [&] {
      work.wait();
      EXPECT_EQ(sum[99999].item<double>(), 2.0);
    };
    run_in_turns(part, part);
  });
}

// What is sent may differ from rank to rank.
TEST_P(TurnsOfRanks, AMessagePassesNoTurn) {
  run_process_ranks(2, GetParam(), [](const ProcessGroup& world) {
    std::string order;
    const int peer = 1 - world.rank();
    run_in_turns(
        [&] {
          at::Tensor other = at::zeros({1}, at::kDouble);
          world.send(at::full({1}, 5.0 + world.rank(), at::kDouble), peer, 1).wait();
          world.recv(other, peer, 1).wait();
          EXPECT_EQ(other.item<double>(), 5.0 + peer);
          order += "message ";
          gathered(world, 0);
          order += "end";
        },
        [&] { order += "other "; });
    EXPECT_EQ(order, "message other end");
  });
}

TEST_P(TurnsOfRanks, WaitsAreRecorded) {
  run_process_ranks(2, GetParam(), [](const ProcessGroup& world) {
    Timeline timeline;
    run_in_turns([&] { gathered(world, 0); }, [&] { gathered(world, 0); }, &timeline);
    gathered(world, 0);  // not of a pair
    ASSERT_EQ(timeline.events().size(), 2u);
    const Timeline::Event& first = timeline.events()[0];
    const Timeline::Event& second = timeline.events()[1];
    EXPECT_EQ(first.what, "all_gather");
    EXPECT_FALSE(first.second);
    EXPECT_TRUE(second.second);
    EXPECT_GE(second.begin_ns, first.begin_ns);  // begun while the first waits
    EXPECT_LE(second.begin_ns, first.begin_ns + first.duration_ns);
  });
}

// What fails on one rank fails on all, soon.
TEST_P(TurnsOfRanks, AFailureIsToldNotHung) {
  EXPECT_THROW(run_process_ranks(2, GetParam(),
                                 [](const ProcessGroup& world) {
                                   run_in_turns(
                                       [&] {
                                         gathered(world, 0);
                                         gathered(world, 0);
                                       },
                                       [&] {
                                         gathered(world, 0);
                                         if (world.rank() == 1) throw std::runtime_error("mine");
                                         gathered(world, 0);
                                       });
                                 }),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Transports, TurnsOfRanks,
                         testing::Values(Transport::kSharedMemory, Transport::kGloo,
                                         Transport::kLocal),
                         [](const testing::TestParamInfo<Transport>& info) {
                           return transport_name(info.param);
                         });

}  // namespace
}  // namespace tessera::test
