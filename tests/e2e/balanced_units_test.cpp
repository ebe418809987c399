// train_dataset.balance_enabled: other ranks have other micro-batches, and every update trains on
// the same samples.

#include <gtest/gtest.h>

#include "tessera/layout/loader_options.h"
#include "tessera/rules/derive.h"
#include "tessera/train/open_training_data.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

const Set kBalanced = {"train_dataset.balance_enabled=true", local_batch(1), "training.steps=4"};

std::vector<std::vector<int64_t>> ids_of_ranks(const Config& config, int64_t ranks, int64_t step) {
  std::vector<std::vector<int64_t>> all;
  const ParallelDims dims = derive_dims(config, ranks);
  const BatchPlan plan = make_batch_plan(config, dims);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Loader loader(open_training_data(config), loader_options(config, dims, plan, rank));
    auto& ids = all.emplace_back();
    for (const MicroBatch& batch : loader.load(step)) {
      ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
    }
  }
  return all;
}

TEST(BalancedUnits, DealOutTheSamplesOfAnUpdate) {
  const Config usual = load_case("qwen3_eod64", {local_batch(1), shard(2)}, 2);
  const Config balanced = load_case("qwen3_eod64", kBalanced + Set{shard(2)}, 2);
  bool moved = false;
  for (int64_t step = 0; step < 4; ++step) {
    const auto before = ids_of_ranks(usual, 2, step), after = ids_of_ranks(balanced, 2, step);
    moved |= before != after;
    std::vector<int64_t> all_before, all_after;
    for (const auto& ids : before) all_before.insert(all_before.end(), ids.begin(), ids.end());
    for (const auto& ids : after) all_after.insert(all_after.end(), ids.begin(), ids.end());
    std::ranges::sort(all_before);
    std::ranges::sort(all_after);
    EXPECT_EQ(all_after, all_before) << step;
  }
  EXPECT_TRUE(moved) << "nothing was dealt out in four updates";
}

TEST(BalancedUnits, TrainAlike) {
  const auto usual = train(load_case("qwen3_eod64", {local_batch(1), "training.steps=4"}, 1), 1, 4);
  for (const Layout& layout :
       {Layout{"shard2", 2, {shard(2)}}, Layout{"replicate2_tp2", 4, {shard(1), tp(2)}}}) {
    const auto run =
        train(load_case("qwen3_eod64", kBalanced + layout.set, layout.ranks), layout.ranks, 4);
    expect_same_training(*run, *usual, 1e-10);
  }
}

}  // namespace
}  // namespace tessera::test
