#include "tessera/layout/placement.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using enum ParamRole;
using Cuts = std::vector<AxisCut>;
using Axes = std::vector<Axis>;

ModelConfig two_kv_heads() {
  ModelConfig model;
  model.num_attention_heads = 8;
  model.num_key_value_heads = 2;
  return model;
}

Placement place(ParamRole role, const ParallelDims& dims) {
  return place_parameter(role, two_kv_heads(), dims);
}

const ParallelDims kTp4{.world = 4, .tp = 4};

TEST(Placement, OneRankHoldsEverythingWhole) {
  for (const ParamRole role : {kEmbedding, kNorm, kAttnK, kMlpDown, kExpertUp, kRouter}) {
    const Placement placement = place(role, {});
    EXPECT_TRUE(placement.cuts.empty());
    EXPECT_TRUE(placement.partial.empty());
    EXPECT_EQ(placement.sharded_over, Axis::kFsdp);
  }
}

TEST(Placement, TensorParallelCutsProductsAndTheVocabulary) {
  for (const ParamRole role :
       {kEmbedding, kHead, kAttnQ, kAttnQBias, kMlaQB, kMlaKvB, kMlpGate, kMlpUp, kMlpUpBias}) {
    EXPECT_EQ(place(role, kTp4).cuts, (Cuts{{Axis::kTp, 0, 1}}));
    EXPECT_TRUE(place(role, kTp4).partial.empty());
  }
  for (const ParamRole role : {kAttnO, kMlpDown}) {
    EXPECT_EQ(place(role, kTp4).cuts, (Cuts{{Axis::kTp, 1, 1}}));
    EXPECT_TRUE(place(role, kTp4).partial.empty());
  }
}

// Fewer kv heads than ranks: the gradient is summed over the ranks that hold the same heads.
TEST(Placement, CopiesOfKvHeadsArePartial) {
  for (const ParamRole role : {kAttnK, kAttnV, kAttnKBias, kAttnVBias}) {
    EXPECT_EQ(place(role, kTp4).cuts, (Cuts{{Axis::kTp, 0, 2}}));
    EXPECT_EQ(place(role, kTp4).partial, Axes{Axis::kTp});
    const ParallelDims tp2{.world = 2, .tp = 2};
    EXPECT_EQ(place(role, tp2).cuts, (Cuts{{Axis::kTp, 0, 1}}));
    EXPECT_TRUE(place(role, tp2).partial.empty());
  }
}

TEST(Placement, WhatNobodyCutsIsPartialOverTp) {
  for (const ParamRole role :
       {kNorm,          kQNorm,         kKNorm,      kAttnOBias,        kMlpDownBias,
        kMlaQA,         kMlaQABias,     kMlaKvA,     kMlaKvABias,       kRouter,
        kSharedGate,    kSharedUp,      kSharedDown, kSharedExpertGate, kMtpEmbeddingNorm,
        kMtpHiddenNorm, kMtpProjection, kExpertGate, kExpertUp,         kExpertDown}) {
    EXPECT_TRUE(place(role, kTp4).cuts.empty());
    EXPECT_EQ(place(role, kTp4).partial, Axes{Axis::kTp});
  }
}

TEST(Placement, ExpertParallelCutsExpertsOnly) {
  const ParallelDims dims{.world = 8, .dp_replicate = 2, .tp = 4, .ep = 2};
  for (const ParamRole role : {kExpertGate, kExpertUp, kExpertDown}) {
    const Placement placement = place(role, dims);
    EXPECT_EQ(placement.cuts, (Cuts{{Axis::kEp, 0, 1}}));
    EXPECT_EQ(placement.sharded_over, Axis::kEfsdp);
    EXPECT_EQ(placement.partial, Axes{Axis::kDpReplicate});
  }
  EXPECT_EQ(place(kRouter, dims).sharded_over, Axis::kFsdp);
  EXPECT_EQ(place(kRouter, dims).partial, (Axes{Axis::kTp, Axis::kDpReplicate}));
}

TEST(Placement, WhatNoGradientMovesIsNeverPartial) {
  const ParallelDims dims{.world = 8, .dp_replicate = 2, .tp = 4};
  EXPECT_TRUE(place(kRouterBias, dims).partial.empty());
}

TEST(Placement, ATiedMatrixIsOnTwoStages) {
  ModelConfig model = two_kv_heads();
  const ParallelDims pp2{.world = 2, .pp = 2};
  EXPECT_TRUE(place_parameter(kEmbedding, model, pp2).partial.empty());
  model.tie_word_embeddings = true;
  EXPECT_EQ(place_parameter(kEmbedding, model, pp2).partial, Axes{Axis::kEmbedding});
  EXPECT_TRUE(place_parameter(kEmbedding, model, {}).partial.empty());
  EXPECT_TRUE(place_parameter(kHead, model, pp2).partial.empty());
}

TEST(Placement, StorageIsCutByRowsOrInsideAFewMatrices) {
  EXPECT_EQ(storage_cut({6, 4}, Axis::kFsdp, 8), (AxisCut{Axis::kFsdp, 0, 1}));
  EXPECT_EQ(storage_cut({6, 4, 2}, Axis::kEfsdp, 4), (AxisCut{Axis::kEfsdp, 0, 1}));
  EXPECT_EQ(storage_cut({3, 4, 2}, Axis::kEfsdp, 4), (AxisCut{Axis::kEfsdp, 1, 1}));
  const ParallelDims dims{.world = 8, .dp_shard = 8, .ep = 2};
  EXPECT_EQ(stored_cuts(place(kExpertUp, dims), {6, 4, 2}, dims),
            (Cuts{{Axis::kEp, 0, 1}, {Axis::kEfsdp, 1, 1}}));
}

TEST(Placement, BoxOfTwoCutsOfOneDimension) {
  // 10 rows, tp 2: 5 each; fsdp 3 of 5 rows: 2, 2, 1.
  const ParallelDims dims{.world = 6, .dp_shard = 3, .tp = 2};
  for (int64_t rank = 0; rank < 6; ++rank) {
    const Box box = box_of({10, 4}, {{Axis::kTp, 0}, {Axis::kFsdp, 0}}, dims, rank);
    const int64_t t = rank % 2, f = rank / 2;
    EXPECT_EQ(box.offsets, (std::vector<int64_t>{t * 5 + f * 2, 0}));
    EXPECT_EQ(box.sizes, (std::vector<int64_t>{f == 2 ? 1 : 2, 4}));
  }
}

}  // namespace
}  // namespace tessera
