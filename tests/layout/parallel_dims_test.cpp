#include "tessera/layout/parallel_dims.h"

#include <gtest/gtest.h>

#include <set>

#include "tessera/base/error.h"
#include "tessera/rules/derive.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

// World 16 of pp 2, dp_replicate 1, dp_shard 2, cp 2, tp 2.
ParallelDims sixteen(int64_t ep) {
  return {.world = 16, .pp = 2, .dp_replicate = 1, .dp_shard = 2, .cp = 2, .tp = 2, .ep = ep};
}

Groups first_stage(const ParallelDims& dims, Axis axis) {
  Groups groups = dims.groups(axis);
  std::erase_if(groups, [](const std::vector<int64_t>& group) { return group[0] >= 8; });
  return groups;
}

TEST(ParallelDims, DenseGroupsOfSixteenRanks) {
  const ParallelDims dims = sixteen(1);
  EXPECT_EQ(first_stage(dims, Axis::kTp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(first_stage(dims, Axis::kCp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(first_stage(dims, Axis::kFsdp), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(first_stage(dims, Axis::kLoss), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(first_stage(dims, Axis::kDpShard), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(first_stage(dims, Axis::kBatch), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(dims.groups(Axis::kPp)[0], (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(dims.groups(Axis::kPp)[1], (std::vector<int64_t>{1, 9}));
}

TEST(ParallelDims, ExpertGroupsOfSixteenRanks) {
  EXPECT_EQ(first_stage(sixteen(2), Axis::kEp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(first_stage(sixteen(2), Axis::kEfsdp), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(first_stage(sixteen(4), Axis::kEp), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(first_stage(sixteen(4), Axis::kEfsdp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(first_stage(sixteen(8), Axis::kEp), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(first_stage(sixteen(8), Axis::kEfsdp).size(), 8u);
}

TEST(ParallelDims, ReplicasNeverShareExperts) {
  const ParallelDims dims{
      .world = 16, .pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 1, .tp = 2, .ep = 4};
  EXPECT_EQ(first_stage(dims, Axis::kEp), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(first_stage(dims, Axis::kDpReplicate), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(ParallelDims, RankIsItsCoordinate) {
  const ParallelDims dims{
      .world = 48, .pp = 2, .dp_replicate = 3, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 2};
  for (int64_t rank = 0; rank < dims.world; ++rank) {
    const Coordinate at = dims.coordinate(rank);
    EXPECT_EQ(dims.rank_of(at), rank);
    EXPECT_EQ(rank, ((at.pp * 6 + at.dp_replicate * 2 + at.dp_shard) * 2 + at.cp) * 2 + at.tp);
    EXPECT_EQ(dims.index_on(Axis::kFsdp, rank), at.dp_shard * 2 + at.cp);
    EXPECT_EQ(dims.index_on(Axis::kBatch, rank), at.dp_replicate * 2 + at.dp_shard);
    // The shard of the data: ((rank mod (W / P)) div T) div C.
    EXPECT_EQ(dims.index_on(Axis::kBatch, rank), rank % 24 / 2 / 2);
  }
}

TEST(ParallelDims, EveryAxisPartitionsTheWorld) {
  for (const int64_t ep : {1, 2, 4, 8}) {
    const ParallelDims dims{
        .world = 48, .pp = 2, .dp_replicate = 3, .dp_shard = 2, .cp = 2, .tp = 2, .ep = ep};
    for (const Axis axis : kEvenAxes) {
      std::set<int64_t> seen;
      for (const auto& group : dims.groups(axis)) {
        EXPECT_EQ(static_cast<int64_t>(group.size()), dims.size(axis)) << axis_name(axis);
        for (size_t i = 0; i < group.size(); ++i) {
          EXPECT_TRUE(seen.insert(group[i]).second) << axis_name(axis);
          EXPECT_EQ(dims.members(axis, group[i]), group);
          EXPECT_EQ(dims.index_on(axis, group[i]), static_cast<int64_t>(i));
        }
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), dims.world) << axis_name(axis);
    }
  }
}

TEST(ParallelDims, WorldAndEmbedding) {
  const ParallelDims dims{.world = 6, .pp = 3, .dp_shard = 2};
  EXPECT_EQ(dims.groups(Axis::kWorld), (Groups{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(dims.groups(Axis::kEmbedding), (Groups{{0, 4}, {1, 5}, {2}, {3}}));
  EXPECT_EQ(dims.index_on(Axis::kEmbedding, 3), 0);
  EXPECT_EQ(dims.index_on(Axis::kEmbedding, 5), 1);
  EXPECT_EQ(dims.size(Axis::kEmbedding), 2);
  const ParallelDims one_stage{.world = 2, .dp_shard = 2};
  EXPECT_EQ(one_stage.groups(Axis::kEmbedding), (Groups{{0}, {1}}));
  EXPECT_EQ(one_stage.size(Axis::kEmbedding), 1);
}

Config with(int64_t tp, int64_t cp, int64_t pp, int64_t shard, int64_t ep) {
  Config config;
  config.parallelism.tensor_parallel = tp;
  config.parallelism.context_parallel = cp;
  config.parallelism.pipeline_parallel = pp;
  config.parallelism.data_parallel_shard = shard;
  config.parallelism.expert_parallel = ep;
  return config;
}

TEST(DeriveDims, ExamplesOfThePage) {
  const ParallelDims a = derive_dims(with(4, 1, 1, -1, 2), 8);
  EXPECT_EQ(a.dp_shard, 2);
  EXPECT_EQ(a.efsdp(), 4);
  const ParallelDims b = derive_dims(with(2, 1, 1, -1, 8), 16);
  EXPECT_EQ(b.dp_shard, 8);
  EXPECT_EQ(b.efsdp(), 2);
  const ParallelDims hsdp = derive_dims(with(1, 1, 1, 8, 1), 16);
  EXPECT_EQ(hsdp.dp_replicate, 2);
  EXPECT_EQ(hsdp.dp_shard, 8);
  const ParallelDims cp = derive_dims(with(1, 2, 1, -1, 1), 8);
  EXPECT_EQ(cp.dp_shard, 4);
  EXPECT_EQ(cp.fsdp(), 8);
  EXPECT_EQ(derive_dims(with(1, 1, 1, -1, 1), 6).dp_shard, 6);
}

TEST(DeriveDims, ShardDegreesThatDoNotDivideAreRefused) {
  for (const auto& [dp, shard] : {std::pair{8, 3}, std::pair{6, 4}, std::pair{4, 9},
                                  std::pair{7, 3}, std::pair{8, 0}, std::pair{8, -2}}) {
    EXPECT_THROW(derive_dims(with(1, 1, 1, shard, 1), dp), ConfigError) << dp << " " << shard;
  }
  EXPECT_THROW(derive_dims(with(4, 1, 1, -1, 1), 6), ConfigError);
  EXPECT_THROW(derive_dims(with(1, 1, 1, -1, 3), 8), ConfigError);
  EXPECT_THROW(derive_dims(with(1, 1, 1, -1, 1), 0), ConfigError);
  EXPECT_THROW(derive_dims(with(0, 1, 1, -1, 1), 4), ConfigError);
}

}  // namespace
}  // namespace tessera
