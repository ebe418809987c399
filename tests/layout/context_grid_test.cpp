#include "tessera/layout/context_grid.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

ParallelismConfig context(const std::string& method, int64_t cp) {
  ParallelismConfig parallelism;
  parallelism.context_parallel = cp;
  parallelism.context_parallel_method = method;
  return parallelism;
}

TEST(ContextGrid, HasTheShapeOfItsMethod) {
  EXPECT_EQ(context_grid(context("colossal", 6)), (ContextGrid{1, 6}));
  EXPECT_EQ(context_grid(context("ulysses", 6)), (ContextGrid{6, 1}));
  ParallelismConfig hybrid = context("hybrid", 6);
  hybrid.ulysses_degree_in_cp = 2;
  EXPECT_EQ(context_grid(hybrid), (ContextGrid{2, 3}));
}

TEST(ContextGrid, TradesInTurnOnlyWhereHeadsAreTraded) {
  for (const char* method : {"colossal", "ulysses"}) {
    ParallelismConfig parallelism = context(method, 4);
    EXPECT_FALSE(trades_in_turn(parallelism));
    parallelism.context_parallel_async = true;
    EXPECT_EQ(trades_in_turn(parallelism), std::string(method) == "ulysses");
  }
}

// 256 MiB of keys and values of all groups together are still gathered.
TEST(KeyExchange, IsAsAskedElseBySize) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_FALSE(travels_in_ring(KeyExchange::kAuto, 4, 32 * kMiB));
  EXPECT_TRUE(travels_in_ring(KeyExchange::kAuto, 4, 32 * kMiB + 1));
  EXPECT_TRUE(travels_in_ring(KeyExchange::kRing, 4, 1));
  EXPECT_FALSE(travels_in_ring(KeyExchange::kAllGather, 4, 1024 * kMiB));
  EXPECT_TRUE(travels_in_ring(KeyExchange::kAllGather, 1, 1));  // nobody to gather from
  for (const auto& [name, exchange] :
       {std::pair{"ring", KeyExchange::kRing}, std::pair{"allgather", KeyExchange::kAllGather},
        std::pair{"auto", KeyExchange::kAuto}}) {
    ParallelismConfig parallelism;
    parallelism.context_parallel_exchange = name;
    EXPECT_EQ(key_exchange(parallelism), exchange) << name;
  }
}

}  // namespace
}  // namespace tessera
