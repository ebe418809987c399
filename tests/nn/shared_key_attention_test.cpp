// Attention over a window and entries, against one softmax over a whole masked matrix.

#include "tessera/nn/compressed/shared_key_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 2, kLength = 75, kHeads = 3, kSize = 4, kRatio = 4;
constexpr int64_t kEntries = kLength / kRatio;
constexpr double kNone = -std::numeric_limits<double>::infinity();

enum class Entries { kNone, kAll, kChosen };

// Documents that begin inside of groups and at their borders.
at::Tensor begins() {
  at::Tensor all = at::zeros({kRows, kLength}, at::kLong);
  all[0].narrow(0, 30, 45).fill_(30);
  all[1].narrow(0, 8, 60).fill_(8);
  all[1].narrow(0, 68, 7).fill_(68);
  return all;
}

bool sees(int64_t t, int64_t e, int64_t begin) {
  return (e + 1) * kRatio <= t + 1 && e * kRatio >= begin;
}

// Some of the entries that each query sees, in no order, and holes.
at::Tensor chosen(const at::Tensor& document_begins) {
  at::Tensor all = at::full({kRows * kLength, 5}, -1, at::kInt);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t t = 0; t < kLength; ++t) {
      const int64_t begin = document_begins.defined() ? document_begins[row][t].item<int64_t>() : 0;
      for (int64_t k = 0; k < 5; ++k) {
        const int64_t e = (t * 3 + (4 - k) * 4 + row) % 20;
        if (e < kEntries && sees(t, e, begin)) all[row * kLength + t][k] = e;
      }
    }
  }
  return all;
}

SharedKeys plan(Entries which, bool documents, const std::vector<at::Tensor>& x) {
  SharedKeys over;
  over.rows = kRows;
  over.window = 7;
  over.scale = 0.6;
  over.keys_TD = x[1];
  over.sinks_N = x[2];
  if (documents) over.document_begins = begins();
  if (which != Entries::kNone) {
    over.ratio = kRatio;
    over.entries_BED = x[3];
  }
  if (which == Entries::kChosen) over.chosen_TK = chosen(over.document_begins);
  return over;
}

at::Tensor dense(const at::Tensor& q_TND, const SharedKeys& over) {
  std::vector<at::Tensor> out;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto of_row = [&](const at::Tensor& x) { return x.narrow(0, row * kLength, kLength); };
    at::Tensor keys = of_row(over.keys_TD);
    const int64_t entries = over.entries_BED.defined() ? kEntries : 0;
    at::Tensor mask = at::full({kLength, kLength + entries}, kNone, at::kDouble);
    auto open = mask.accessor<double, 2>();
    for (int64_t t = 0; t < kLength; ++t) {
      const int64_t begin =
          over.document_begins.defined() ? over.document_begins[row][t].item<int64_t>() : 0;
      for (int64_t j = std::max(begin, t - over.window + 1); j <= t; ++j) open[t][j] = 0;
      for (int64_t e = 0; e < entries; ++e) {
        const bool is_open = over.chosen_TK.defined()
                                 ? of_row(over.chosen_TK)[t].eq(e).any().item<bool>()
                                 : sees(t, e, begin);
        if (is_open) open[t][kLength + e] = 0;
      }
    }
    if (entries > 0) keys = at::cat({keys, over.entries_BED[row]});
    const at::Tensor scores = at::einsum("tnd,kd->ntk", {of_row(q_TND), keys}) * over.scale + mask;
    const at::Tensor sinks = over.sinks_N.view({kHeads, 1, 1}).expand({-1, kLength, 1});
    const at::Tensor p = at::cat({scores, sinks}, 2).softmax(2).narrow(2, 0, keys.size(0));
    out.push_back(at::einsum("ntk,kd->tnd", {p, keys}));
  }
  return at::cat(out);
}

std::vector<at::Tensor> inputs() {
  return {sample_values({kRows * kLength, kHeads, kSize}, 0.3),
          sample_values({kRows * kLength, kSize}, 0.8), sample_values({kHeads}, 0.5),
          sample_values({kRows, kEntries, kSize}, 1.3)};
}

class SharedKeyAttention : public testing::TestWithParam<std::tuple<Entries, bool>> {};

TEST_P(SharedKeyAttention, EqualsTheWholeMatrix) {
  const auto [which, documents] = GetParam();
  std::vector<at::Tensor> ours = inputs(), theirs = inputs();
  for (auto* all : {&ours, &theirs}) {
    for (at::Tensor& x : *all) x.requires_grad_(true);
  }
  const at::Tensor got = shared_key_attention(ours[0], plan(which, documents, ours));
  const at::Tensor want = dense(theirs[0], plan(which, documents, theirs));
  EXPECT_TRUE(at::allclose(got, want, 1e-12, 1e-12));
  const at::Tensor weight = sample_values(got.sizes().vec(), 0.2);
  (got * weight).sum().backward();
  (want * weight).sum().backward();
  for (size_t i = 0; i < ours.size(); ++i) {
    if (i == 3 && which == Entries::kNone) continue;
    EXPECT_TRUE(at::allclose(ours[i].grad(), theirs[i].grad(), 1e-11, 1e-11)) << "input " << i;
    EXPECT_GT(ours[i].grad().norm().item<double>(), 0.01) << "input " << i;
  }
}

TEST_P(SharedKeyAttention, InBfloat16) {
  const auto [which, documents] = GetParam();
  auto all = inputs();
  if (which == Entries::kNone) all.pop_back();
  expect_close_in_bfloat16(
      [&, which = which, documents = documents](const std::vector<at::Tensor>& x) {
        return shared_key_attention(x[0], plan(which, documents, x));
      },
      all);
}

INSTANTIATE_TEST_SUITE_P(Cases, SharedKeyAttention,
                         testing::Combine(testing::Values(Entries::kNone, Entries::kAll,
                                                          Entries::kChosen),
                                          testing::Bool()));

TEST(SharedKeyAttentionAlone, SamplesThatAreTooShortForAnEntry) {
  std::vector<at::Tensor> x{sample_values({2, 1, kSize}, 0.3), sample_values({2, kSize}, 0.8),
                            sample_values({1}, 0.5), at::zeros({1, 0, kSize}, at::kDouble)};
  for (at::Tensor& each : x) each.requires_grad_(true);
  SharedKeys over;
  over.window = 7;
  over.ratio = kRatio;
  over.keys_TD = x[1], over.sinks_N = x[2], over.entries_BED = x[3];
  const at::Tensor out = shared_key_attention(x[0], over);
  out.sum().backward();
  EXPECT_EQ(x[3].grad().numel(), 0);
  EXPECT_TRUE(out.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace tessera
