#include "tessera/planner/search/fewer_ranks.h"

#include <gtest/gtest.h>

#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using Sets = std::vector<std::string>;

bool all_fit(const Config&, int64_t) { return true; }

// What is used and how, by the overrides that make it; "none".
std::string layout(const Sets& sets, int64_t world, int64_t left,
                   const std::function<bool(const Config&, int64_t)>& fits = all_fit) {
  Sets all = {"elastic.layouts=[{}]", "training.global_batch_size=24"};
  all.insert(all.end(), sets.begin(), sets.end());
  const auto checked = check_text(kBase, world, all);
  EXPECT_FALSE(has_errors(checked.issues)) << format_issues(checked.issues);
  const Config& config = checked.result.config;
  const auto found = layout_of_fewer(config, world, left, checked.result.provenance, fits);
  if (!found) return "none";
  std::string text = std::to_string(found->used) + (found->listed ? " listed" : "");
  return text + ": " + layout_text(found->config, found->used);
}

const Sets kHybrid = {"parallelism.data_parallel_shard=4"};

TEST(FewerRanks, ReplicasShrinkBeforeShards) {
  EXPECT_EQ(layout(kHybrid, 12, 12), "12: dp_replicate 3 x dp_shard 4");
  EXPECT_EQ(layout(kHybrid, 12, 11), "8: dp_replicate 2 x dp_shard 4");
  EXPECT_EQ(layout(kHybrid, 12, 8), "8: dp_replicate 2 x dp_shard 4");
  EXPECT_EQ(layout(kHybrid, 12, 7), "4: dp_shard 4");
  EXPECT_EQ(layout(kHybrid, 12, 3), "3: dp_shard 3");
  EXPECT_EQ(layout(kHybrid, 12, 1), "1: one rank");
}

TEST(FewerRanks, OtherDegreesStay) {
  const Sets cut = {"parallelism.tensor_parallel=2", "parallelism.data_parallel_shard=2"};
  EXPECT_EQ(layout(cut, 8, 7), "4: dp_shard 2 x tp 2");
  EXPECT_EQ(layout(cut, 8, 3), "2: tp 2");
  EXPECT_EQ(layout(cut, 8, 1), "none");
}

TEST(FewerRanks, ExpertParallelBecomesADivisorWhereItMust) {
  const Sets experts = moe({"parallelism.expert_parallel=4"});
  EXPECT_EQ(layout(experts, 8, 7), "4: dp_shard 4 x ep 4");
  EXPECT_EQ(layout(experts, 8, 3), "2: dp_shard 2 x ep 2");
}

TEST(FewerRanks, ThenTheListIsAsked) {
  const Sets listed = {"parallelism.tensor_parallel=4", "parallelism.pipeline_parallel=2",
                       "parallelism.pipeline_parallel_layers_per_stage=auto",
                       "elastic.layouts=[{tensor_parallel: 3}, {pipeline_parallel: 1}, "
                       "{tensor_parallel: 1, pipeline_parallel: 1}]"};
  EXPECT_EQ(layout(listed, 8, 7), "4 listed: tp 4");
  EXPECT_EQ(layout(listed, 8, 3), "3 listed: dp_shard 3");
}

TEST(FewerRanks, WhatDoesNotFitIsPassedOver) {
  const auto wants_six = [](const Config&, int64_t used) { return used >= 6; };
  EXPECT_EQ(layout(kHybrid, 12, 11, wants_six), "8: dp_replicate 2 x dp_shard 4");
  EXPECT_EQ(layout(kHybrid, 12, 7, wants_six), "none");
}

TEST(FewerRanks, OverridesMakeTheLayout) {
  const auto checked =
      check_text(kBase, 12, {"elastic.layouts=[{}]", "parallelism.data_parallel_shard=4"});
  const auto found =
      layout_of_fewer(checked.result.config, 12, 3, checked.result.provenance, all_fit);
  ASSERT_TRUE(found);
  EXPECT_EQ(layout_overrides(checked.result.config, found->config),
            (Sets{"parallelism.data_parallel_shard=3"}));
}

}  // namespace
}  // namespace tessera
