#include "tessera/layout/updates/matrix_deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace tessera {
namespace {

DealtTensor tensor(const std::string& name, ParamRole role, std::vector<int64_t> shape,
                   const ParallelDims& dims, const ModelConfig& model = {}) {
  const Placement placement = place_parameter(role, model, dims);
  const int64_t rows = shape[shape.size() - 2];
  return {name, shape, stored_cuts(placement, shape, dims), matrix_pieces(role, rows, model)};
}

ModelConfig latent() {
  ModelConfig model;
  model.num_attention_heads = 3;
  model.num_key_value_heads = 3;
  model.qk_nope_head_dim = 4;
  model.qk_rope_head_dim = 2;
  model.v_head_dim = 5;
  model.kv_lora_rank = 7;
  return model;
}

TEST(MatrixPieces, LatentAttentionIsTakenApart) {
  using Pieces = std::vector<RowPiece>;
  const ModelConfig m = latent();
  EXPECT_EQ(matrix_pieces(ParamRole::kMlaQB, 18, m), (Pieces{{6, 0, 4, 3}, {6, 4, 6, 3}}));
  EXPECT_EQ(matrix_pieces(ParamRole::kMlaKvA, 9, m), (Pieces{{9, 0, 7, 1}, {9, 7, 9, 1}}));
  EXPECT_EQ(matrix_pieces(ParamRole::kMlaKvB, 27, m), (Pieces{{9, 0, 4, 3}, {9, 4, 9, 3}}));
  EXPECT_EQ(matrix_pieces(ParamRole::kMlaQA, 11, m), (Pieces{{11, 0, 11, 1}}));
}

TEST(MatrixPieces, RunsAreTheRowsOfARange) {
  const RowPiece piece{6, 4, 6, 3};  // rows 4 5, 10 11, 16 17
  const auto runs = piece_runs(piece, {5, 17});
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].in_piece, 1);
  EXPECT_EQ(runs[0].in_matrix, 5);
  EXPECT_EQ(runs[0].rows, 1);
  EXPECT_EQ(runs[1].in_piece, 2);
  EXPECT_EQ(runs[1].rows, 2);
  EXPECT_EQ(runs[2].in_matrix, 16);
  EXPECT_EQ(runs[2].rows, 1);
  EXPECT_TRUE(piece_runs(piece, {6, 10}).empty());
  EXPECT_TRUE(piece_runs(piece, {3, 3}).empty());
}

// Of every layout: the sources of a matrix cover each of its elements once, every rank that holds
// one is a holder, and nobody else.
TEST(MatrixDeal, SourcesTileEveryMatrix) {
  using enum ParamRole;
  ModelConfig model = latent();
  const std::vector<ParallelDims> layouts = {
      {},
      {.world = 3, .dp_shard = 3},
      {.world = 8, .dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2},
      {.world = 12, .pp = 2, .dp_shard = 3, .tp = 2, .ep = 6},
  };
  for (const ParallelDims& dims : layouts) {
    const MatrixDeal deal(
        {tensor("q", kMlaQB, {18, 10}, dims, model), tensor("o", kAttnO, {10, 15}, dims, model),
         tensor("k", kAttnK, {6, 10}, dims, model),
         tensor("experts", kExpertUp, {6, 5, 10}, dims, model)},
        dims, dims.world - 1);
    EXPECT_EQ(deal.ranks(), dims.world / dims.pp);
    EXPECT_EQ(deal.matrices().size(), 2U + 1 + 1 + 6);
    for (const DealtMatrix& matrix : deal.matrices()) {
      std::map<std::pair<int64_t, int64_t>, int> covered;
      for (const MatrixShare& share : deal.sources(matrix)) {
        int64_t elements = 0;
        for (const PieceRun& run : share.runs) {
          for (int64_t row = 0; row < run.rows; ++row) {
            for (int64_t c = share.columns.begin; c < share.columns.end; ++c) {
              ++covered[{run.in_piece + row, c}];
              ++elements;
            }
          }
        }
        EXPECT_EQ(elements, share.elements);
      }
      EXPECT_EQ(static_cast<int64_t>(covered.size()), matrix.numel());
      for (const auto& [at, times] : covered) EXPECT_EQ(times, 1);
      int64_t held = 0;
      for (const MatrixShare& share : deal.holders(matrix)) held += share.elements;
      EXPECT_EQ(held % matrix.numel(), 0);
      EXPECT_GE(held, dims.dp_replicate * matrix.numel());
      EXPECT_LT(matrix.owner, deal.ranks());
    }
  }
}

TEST(MatrixDeal, DoesNotDependOnTheOrderOfTheList) {
  const ParallelDims dims{.world = 4, .dp_shard = 4};
  std::vector<DealtTensor> tensors;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    tensors.push_back(tensor(name, ParamRole::kMlpUp, {12, 8}, dims));
  }
  const auto owners = [&] {
    std::map<std::string, int64_t> result;
    const MatrixDeal deal(tensors, dims, 0);
    for (const DealtMatrix& m : deal.matrices()) {
      result[deal.tensors()[m.tensor].name] = m.owner;
    }
    return result;
  };
  const auto first = owners();
  std::ranges::reverse(tensors);
  EXPECT_EQ(owners(), first);
}

// Copies included: no matrix is iterated by two ranks, and the work is spread over the replicas.
TEST(MatrixDeal, ReplicasShareTheWork) {
  const ParallelDims dims{.world = 4, .dp_replicate = 2, .dp_shard = 2};
  std::vector<DealtTensor> tensors;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back(tensor("w" + std::to_string(i), ParamRole::kMlpUp, {12, 8}, dims));
  }
  const MatrixDeal deal(tensors, dims, 0);
  std::map<int64_t, int> of_owner;
  for (const DealtMatrix& matrix : deal.matrices()) ++of_owner[matrix.owner];
  EXPECT_EQ(of_owner, (std::map<int64_t, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}}));
  // The parts come from the owner's own replica.
  for (const DealtMatrix& matrix : deal.matrices()) {
    for (const MatrixShare& share : deal.sources(matrix)) {
      EXPECT_EQ(share.place / 2, matrix.owner / 2);
    }
  }
}

TEST(MatrixDeal, ExpertsStayWhereTheyAreWhole) {
  const ParallelDims dims{.world = 4, .dp_shard = 4, .ep = 4};
  const MatrixDeal deal({tensor("up", ParamRole::kExpertUp, {8, 6, 10}, dims)}, dims, 0);
  for (const DealtMatrix& matrix : deal.matrices()) {
    EXPECT_EQ(matrix.owner, matrix.matrix / 2);
    EXPECT_EQ(deal.sources(matrix).size(), 1U);
    EXPECT_EQ(deal.sources(matrix).front().place, matrix.owner);
  }
}

// A rank's matrices of a round are bounded, so that memory is.
TEST(MatrixDeal, LargeMatricesHaveRoundsOfTheirOwn) {
  const ParallelDims dims{.world = 2, .dp_shard = 2};
  std::vector<DealtTensor> tensors;
  for (int i = 0; i < 6; ++i) {
    tensors.push_back(tensor("w" + std::to_string(i), ParamRole::kMlpUp, {3000, 1000}, dims));
  }
  const MatrixDeal deal(tensors, dims, 0);
  EXPECT_EQ(deal.rounds(), 3);
  std::map<std::pair<int64_t, int64_t>, int> of_round;
  for (const DealtMatrix& matrix : deal.matrices()) ++of_round[{matrix.owner, matrix.round}];
  for (const auto& [at, count] : of_round) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace tessera
