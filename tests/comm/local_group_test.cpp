// What is special to threads as ranks: order, mismatches, failures, time limits, groups of groups.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename E>
std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const E& error) {
    EXPECT_EQ(typeid(error), typeid(E));
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(LocalGroup, SumsInOrderOfMembers) {
  // 1e20 + 1 - 1e20 + 1 = 1 in this order, and in no other order of addition.
  run_ranks(4, [](const ProcessGroup& group) {
    const std::array<double, 4> values = {1e20, 1, -1e20, 1};
    at::Tensor tensor = at::full({40000}, values[group.rank()], at::kDouble);
    at::Tensor shard = at::empty({10000}, at::kDouble);
    group.reduce_scatter({shard}, {tensor}).wait();
    EXPECT_EQ(shard.min().item<double>(), 1);
    EXPECT_EQ(shard.max().item<double>(), 1);
    group.all_reduce({tensor}).wait();
    EXPECT_EQ(tensor.min().item<double>(), 1);
    EXPECT_EQ(tensor.max().item<double>(), 1);
  });
}

TEST(LocalGroup, ReduceScatterAddsHalfInputsInFloat) {
  run_ranks(3, [](const ProcessGroup& group) {
    // 256 + 1 + 1 is 258 in float32; bfloat16 additions would stay at 256.
    const std::array<float, 3> values = {256, 1, 1};
    const at::Tensor full = at::full({7, 5}, values[group.rank()], at::kBFloat16);
    const Range rows = part_of(7, 3, group.rank());
    const at::Tensor as_float = at::empty({rows.size(), 5}, at::kFloat);
    const at::Tensor as_half = at::empty({rows.size(), 5}, at::kBFloat16);
    group.reduce_scatter({as_float, as_half}, {full, full}).wait();
    EXPECT_TRUE(at::all(as_float == 258).item<bool>());
    EXPECT_TRUE(at::all(as_half == 258).item<bool>());
  });
}

TEST(LocalGroup, ManyStartedAtOnceAndWaitedInAnyOrder) {
  run_ranks(3, [](const ProcessGroup& group) {
    constexpr int kOperations = 20;
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < kOperations; ++i) {
      tensors.push_back(at::full({i % 2 == 0 ? 3 : 50000}, i, at::kFloat));
      works.push_back(group.all_reduce({tensors.back()}));
    }
    for (int k = 0; k < kOperations; ++k) {
      // Each rank in another order.
      const int i = group.rank() == 0 ? k : group.rank() == 1 ? kOperations - 1 - k : (k * 7) % 20;
      works[i].wait();
      EXPECT_TRUE(at::all(tensors[i] == 3 * i).item<bool>());
    }
  });
}

// Rank 0 is done with its collective only if rank 1 need not come back for it.
TEST(LocalGroup, AWaitNeedsNoWaitOfThePeer) {
  run_ranks(2, [](const ProcessGroup& group) {
    at::Tensor big = at::ones({200000}, at::kFloat);
    at::Tensor token = at::ones({1}, at::kFloat);
    Work work = group.all_reduce({big});
    if (group.rank() == 0) {
      work.wait();
      group.send(token, 1, 0).wait();
    } else {
      group.recv(token, 0, 0).wait();
      work.wait();
    }
    EXPECT_EQ(big[199999].item<float>(), 2);
  });
}

TEST(LocalGroup, RandomTrafficOverManyGroups) {
  run_ranks(8, [](const ProcessGroup& world) {
    const ProcessGroup rows = world.split({{0, 1, 2, 3}, {4, 5, 6, 7}}, "rows");
    const ProcessGroup columns = world.split({{0, 4}, {1, 5}, {2, 6}, {3, 7}}, "columns");
    for (int step = 0; step < 200; ++step) {
      at::Tensor a = at::full({1 + (step * 37) % 3000}, world.rank(), at::kFloat);
      at::Tensor b = at::full({1 + (step * 53) % 40000}, world.rank(), at::kDouble);
      at::Tensor c = at::empty({3}, at::kLong);
      Work first = rows.all_reduce({a});
      Work second = columns.all_reduce({b});
      const int next = (world.rank() + 1) % 8;
      world.send(at::full({3}, world.rank() * step, at::kLong), next, step).wait();
      world.recv(c, (world.rank() + 7) % 8, step).wait();
      second.wait();
      first.wait();
      const int row = world.rank() / 4;
      ASSERT_EQ(a[0].item<float>(), row == 0 ? 6 : 22);
      ASSERT_EQ(b[-1].item<double>(), 2 * (world.rank() % 4) + 4);
      ASSERT_EQ(c[2].item<int64_t>(), (world.rank() + 7) % 8 * step);
    }
  });
}

TEST(LocalGroup, SplitGivesOrderNamesAndSingles) {
  run_ranks(5, [](const ProcessGroup& world) {
    const ProcessGroup group = world.split({{3, 1}, {0, 4}, {2}}, "odd");
    EXPECT_EQ(group.name(), "odd");
    const std::vector<std::vector<int>> expected = {{0, 4}, {3, 1}, {2}, {3, 1}, {0, 4}};
    const std::array<int, 5> place = {0, 1, 0, 0, 1};
    EXPECT_EQ(group.ranks(), expected[world.rank()]);
    EXPECT_EQ(group.rank(), place[world.rank()]);
    at::Tensor sum = at::full({1}, world.rank(), at::kLong);
    group.all_reduce({sum}).wait();
    const std::array<int64_t, 5> sums = {4, 4, 2, 4, 4};
    EXPECT_EQ(sum.item<int64_t>(), sums[world.rank()]);
  });
}

TEST(LocalGroup, AliasSharesTheTransportAndCountsAlone) {
  run_ranks(2, [](const ProcessGroup& world) {
    const ProcessGroup tp = world.alias("tp");
    at::Tensor a = at::ones({4}, at::kFloat);
    tp.all_reduce({a}).wait();
    world.barrier();
    EXPECT_EQ(tp.name(), "tp");
    EXPECT_EQ(tp.stats().total_bytes(), 16);
    EXPECT_EQ(world.stats().total_bytes(), 0);
  });
}

TEST(LocalGroup, CountsWhatAnIdealAlgorithmSends) {
  run_ranks(3, [](const ProcessGroup& group) {
    const int64_t own = part_of(7, 3, group.rank()).size();  // 3, 3, 1
    const at::Tensor full = at::zeros({7, 2}, at::kFloat);
    const at::Tensor shard = at::zeros({own, 2}, at::kFloat);
    group.all_gather({full}, {shard}).wait();
    group.reduce_scatter({shard}, {full}).wait();
    group.all_reduce({full}).wait();
    group.broadcast({full}, 1).wait();
    const int64_t each = group.rank() + 1;
    group
        .all_to_all(at::zeros({3 * each}, at::kLong), at::zeros({6}, at::kLong), {each, each, each},
                    {1, 2, 3})
        .wait();
    group.send(full, (group.rank() + 1) % 3, 0).wait();
    group.recv(full, (group.rank() + 2) % 3, 0).wait();
    const auto& counts = group.stats().operations;
    EXPECT_EQ(counts.at("all_gather").bytes, 2 * own * 8);
    EXPECT_EQ(counts.at("reduce_scatter").bytes, 56 - own * 8);
    EXPECT_EQ(counts.at("all_reduce").bytes, 2 * 2 * 56 / 3);
    EXPECT_EQ(counts.at("broadcast").bytes, group.rank() == 1 ? 56 : 0);
    EXPECT_EQ(counts.at("all_to_all").bytes, (6 - (group.rank() + 1)) * 8);
    EXPECT_EQ(counts.at("send").bytes, 56);
    EXPECT_EQ(counts.at("send").calls, 1);
  });
}

TEST(LocalGroupFailure, FirstErrorIsThrownAgainWithRankAndType) {
  const std::string message = message_of<CheckpointError>([] {
    run_ranks(3, [](const ProcessGroup& group) {
      if (group.rank() == 1) throw CheckpointError("no such file");
      at::Tensor tensor = at::zeros({1});
      group.all_reduce({tensor}).wait();
    });
  });
  EXPECT_EQ(message, "rank 1: no such file");
}

TEST(LocalGroupFailure, ReleasesAllWhoWait) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto run = [&](const ProcessGroup& world) {
    const ProcessGroup pair = world.split({{0, 2}, {1, 3}}, "pair");
    if (world.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      throw std::runtime_error("boom");
    }
    at::Tensor tensor = at::zeros({1});
    try {
      if (world.rank() == 0) pair.barrier();
      if (world.rank() == 1) world.recv(tensor, 2, 0).wait();
      if (world.rank() == 3) world.all_reduce({tensor}).wait();
    } catch (const CommError& error) {
      std::lock_guard lock(mutex);
      messages.push_back(error.what());
      throw;
    }
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] { run_ranks(4, run); }), "rank 2: boom");
  EXPECT_THAT(messages, AllOf(testing::SizeIs(3), testing::Each("a peer failed: rank 2: boom")));
}

// The work that a failing rank lets go of must not be what is reported.
TEST(LocalGroupFailure, TheCauseIsReportedNotItsConsequence) {
  for (int i = 0; i < 50; ++i) {
    const std::string message = message_of<NonFiniteError>([] {
      run_ranks(4, [](const ProcessGroup& group) {
        at::Tensor tensor = at::zeros({100000});
        Work work = group.all_reduce({tensor});
        if (group.rank() == 1) {
          at::Tensor second = at::zeros({3});
          const Work dropped = group.all_reduce({second});
          throw NonFiniteError("loss");
        }
        work.wait();
        group.all_reduce({at::zeros({3})}).wait();
        group.barrier();
      });
    });
    ASSERT_EQ(message, "rank 1: loss");
  }
}

TEST(LocalGroupFailure, AWorkThatIsDroppedIsNamed) {
  const std::string message = message_of<CommError>([] {
    run_ranks(2, [](const ProcessGroup& group) {
      if (group.rank() == 0) group.all_reduce({at::zeros({3})});
      if (group.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        group.all_reduce({at::zeros({3})}).wait();
      }
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 0 gave up all_reduce"));
}

TEST(LocalGroupFailure, TorchErrorsKeepTheirType) {
  const std::string message = message_of<c10::Error>([] {
    run_ranks(2, [](const ProcessGroup& group) {
      if (group.rank() == 1) at::zeros({2}).reshape({3});
      group.barrier();
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 1"));
}

TEST(LocalGroupFailure, MismatchNamesBothRanksAndOperations) {
  const std::string message = message_of<CommError>([] {
    run_ranks(2, [](const ProcessGroup& group) {
      at::Tensor tensor = at::zeros({4, 2});
      if (group.rank() == 0) group.all_reduce({tensor}).wait();
      if (group.rank() == 1) group.broadcast({tensor}, 0).wait();
    });
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0 calls all_reduce of Float [4, 2]"),
                             HasSubstr("rank 1 calls broadcast of Float [4, 2]")));
}

TEST(LocalGroupFailure, MismatchOfShapeDtypeAndOperator) {
  const auto message = [](const std::function<void(const ProcessGroup&)>& fn) {
    return message_of<CommError>([&] { run_ranks(2, fn); });
  };
  EXPECT_THAT(message([](const ProcessGroup& group) {
                group.all_reduce({at::zeros({2 + group.rank()})}).wait();
              }),
              AllOf(HasSubstr("Float [2]"), HasSubstr("Float [3]")));
  EXPECT_THAT(message([](const ProcessGroup& group) {
                group.all_reduce({at::zeros({2}, group.rank() ? at::kDouble : at::kFloat)}).wait();
              }),
              AllOf(HasSubstr("Float [2]"), HasSubstr("Double [2]")));
  EXPECT_THAT(
      message([](const ProcessGroup& group) {
        group.all_reduce({at::zeros({2})}, group.rank() ? ReduceOp::kMax : ReduceOp::kSum).wait();
      }),
      HasSubstr("variant 1"));
}

TEST(LocalGroupFailure, AllToAllSplitsMustFit) {
  try {
    run_ranks(2, [](const ProcessGroup& group) {
      const int64_t to_1 = group.rank() == 0 ? 2 : 1;
      group.all_to_all(at::zeros({2}), at::zeros({1 + to_1}), {1, 1}, {1, to_1}).wait();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("member 0 sends 2 rows to member 1, which expects 1"));
  }
}

TEST(LocalGroupFailure, ARankThatEndedIsNamed) {
  const std::string message = message_of<CommError>([] {
    run_ranks(3, [](const ProcessGroup& group) {
      if (group.rank() != 1) group.alias("fsdp").barrier();
    });
  });
  EXPECT_THAT(message, AllOf(HasSubstr("barrier"), HasSubstr("fsdp"),
                             HasSubstr("rank 1 ended without taking part")));
}

TEST(LocalGroupFailure, TimeOutNamesOperationGroupAndMissingRanks) {
  RankOptions options;
  options.group.timeout = std::chrono::seconds(3);
  std::atomic<bool> over{false};
  const std::string message = message_of<CommError>([&] {
    run_ranks(
        4,
        [&](const ProcessGroup& world) {
          const ProcessGroup group = world.split({{0, 1, 2, 3}}, "tp");
          if (group.rank() == 1 || group.rank() == 3) {
            while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return;
          }
          try {
            group.all_reduce({at::zeros({2})}).wait();
          } catch (...) {
            over = true;
            throw;
          }
        },
        options);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce"), HasSubstr("group tp"), HasSubstr("3 s"),
                             HasSubstr("ranks 1, 3")));
}

TEST(LocalGroupFailure, MessageOfAnotherSizeIsRefused) {
  EXPECT_THAT(message_of<CommError>([] {
                run_ranks(2, [](const ProcessGroup& group) {
                  if (group.rank() == 0) group.send(at::zeros({2}), 1, 7).wait();
                  if (group.rank() == 1) group.recv(at::zeros({3}), 0, 7).wait();
                });
              }),
              AllOf(HasSubstr("rank 0 sends Float [2]"), HasSubstr("rank 1 receives Float [3]")));
}

TEST(RunRanks, OneIntraOpThreadARankUnlessToldOtherwise) {
  const int before = at::get_num_threads();
  run_ranks(3, [](const ProcessGroup&) { EXPECT_EQ(at::get_num_threads(), 1); });
  EXPECT_EQ(at::get_num_threads(), before);
  RankOptions options;
  options.threads_per_rank = 2;
  run_ranks(
      2, [](const ProcessGroup&) { EXPECT_EQ(at::get_num_threads(), 2); }, options);
}

}  // namespace
}  // namespace tessera
