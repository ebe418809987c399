// The choice of entries against a sort of the whole matrix, and the indexer's loss.

#include "tessera/nn/compressed/indexer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>

#include "tessera/nn/compressed/indexer_loss.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 2, kLength = 70, kRatio = 4, kTopK = 5;
constexpr int64_t kEntries = kLength / kRatio, kTokens = kRows * kLength;

IndexScores sample_scores() {
  return {sample_values({kTokens, 3, 6}, 0.3), sample_values({kTokens, 3}, 0.9),
          sample_values({kRows, kEntries, 6}, 1.4)};
}

at::Tensor score(const IndexScores& scores, int64_t row, int64_t t) {
  const int64_t token = row * kLength + t;
  const at::Tensor products = scores.q_Thd[token].matmul(scores.keys_BEd[row].t()).relu();
  return scores.weight_Th[token].matmul(products);  // [E]
}

std::set<int32_t> of_token(const at::Tensor& chosen_TK, int64_t token) {
  const at::Tensor own = chosen_TK[token].contiguous();
  const int32_t* first = own.const_data_ptr<int32_t>();
  std::set<int32_t> all(first, first + own.numel());
  all.erase(-1);
  return all;
}

class ChooseEntries : public testing::TestWithParam<bool> {};

TEST_P(ChooseEntries, TheBestOfThoseThatAreSeen) {
  at::Tensor begins;
  if (GetParam()) {
    begins = at::zeros({kRows, kLength}, at::kLong);
    begins[1].narrow(0, 21, 49).fill_(21);
  }
  const IndexScores scores = sample_scores();
  const at::Tensor chosen = choose_entries(scores, kTopK, kRatio, begins);
  ASSERT_EQ(chosen.sizes(), (std::vector<int64_t>{kTokens, kTopK}));
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t t = 0; t < kLength; ++t) {
      const int64_t begin = begins.defined() ? begins[row][t].item<int64_t>() : 0;
      const at::Tensor all = score(scores, row, t);
      std::vector<std::pair<double, int32_t>> seen;
      for (int64_t e = 0; e < kEntries; ++e) {
        if ((e + 1) * kRatio > t + 1 || e * kRatio < begin) continue;
        seen.emplace_back(-all[e].item<double>(), static_cast<int32_t>(e));
      }
      std::sort(seen.begin(), seen.end());
      if (seen.size() > kTopK) seen.resize(kTopK);
      std::set<int32_t> want;
      for (const auto& [value, entry] : seen) want.insert(entry);
      EXPECT_EQ(of_token(chosen, row * kLength + t), want) << row << " " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Documents, ChooseEntries, testing::Bool());

TEST(Indexer, FewerEntriesThanAreAskedFor) {
  const at::Tensor chosen = choose_entries(sample_scores(), 100, kRatio, {});
  EXPECT_EQ(chosen.size(1), kEntries);
  EXPECT_EQ(of_token(chosen, kLength - 1).size(), static_cast<size_t>(kEntries));
  EXPECT_TRUE(of_token(chosen, 2).empty());
}

IndexerTarget sample_target(const IndexScores& scores) {
  return {sample_values({kTokens, 2, 8}, 0.5), sample_values({kRows, kEntries, 8}, 0.1),
          choose_entries(scores, kTopK, kRatio, {}), 0.35};
}

double loss_by_loops(const IndexScores& scores, const IndexerTarget& target) {
  double sum = 0;
  for (int64_t token = 0; token < kTokens; ++token) {
    const int64_t row = token / kLength;
    std::vector<int64_t> entries;
    for (const int32_t e : of_token(target.chosen_TK, token)) entries.push_back(e);
    if (entries.empty()) continue;
    const at::Tensor index = at::tensor(entries, at::kLong);
    const at::Tensor own = target.entries_BED[row].index_select(0, index);
    const at::Tensor heads =
        (target.q_TND[token].matmul(own.t()) * target.scale).softmax(-1).sum(0);
    const at::Tensor p = heads / heads.sum();
    const at::Tensor q = score(scores, row, token % kLength).index_select(0, index).softmax(-1);
    const at::Tensor part = p / (p.sum() + 1e-9);
    sum += (p * (part.clamp_min(1e-9).log() - (q + 1e-9).log())).sum().item<double>();
  }
  return sum;
}

TEST(IndexerLoss, EqualsTheFormula) {
  const IndexScores scores = sample_scores();
  const IndexerTarget target = sample_target(scores);
  const double got = indexer_loss(scores, target, 0.25).item<double>();
  EXPECT_NEAR(got, 0.25 * loss_by_loops(scores, target), 1e-11);
  EXPECT_GT(got, 0.1);
}

TEST(IndexerLoss, GradientsByDifferences) {
  const IndexScores scores{sample_values({22, 2, 3}, 0.3), sample_values({22, 2}, 0.9),
                           sample_values({2, 2, 3}, 1.4)};
  const IndexerTarget target{sample_values({22, 2, 4}, 0.5), sample_values({2, 2, 4}, 0.1),
                             choose_entries(scores, 2, kRatio, {}), 0.35};
  expect_gradients_by_differences(
      [&](const std::vector<at::Tensor>& x) {
        return indexer_loss({x[0], x[1], x[2]}, target, 0.25) * 3;
      },
      {scores.q_Thd, scores.weight_Th, scores.keys_BEd}, 1e-6);
}

// The attention that is the target learns nothing from it.
TEST(IndexerLoss, ReachesTheIndexerAlone) {
  IndexScores scores = sample_scores();
  IndexerTarget target = sample_target(scores);
  scores.q_Thd.requires_grad_(true);
  target.q_TND.requires_grad_(true);
  target.entries_BED.requires_grad_(true);
  const auto gradients = torch::autograd::grad(
      {indexer_loss(scores, target, 1.0)}, {scores.q_Thd, target.q_TND, target.entries_BED}, {},
      /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[1].defined());
  EXPECT_FALSE(gradients[2].defined());
}

}  // namespace
}  // namespace tessera
