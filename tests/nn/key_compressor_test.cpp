// Compressed entries, against plain loops.

#include "tessera/nn/compressed/key_compressor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/nn/compressed/tail_rotary.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

Weight leaf(const at::Tensor& value) {
  Weight weight;
  weight.dtype = value.scalar_type();
  weight.parts.emplace_back();
  weight.value = value;
  return weight;
}

constexpr int64_t kSize = 6, kHidden = 5;

// Groups of 3 tokens. x: value and gate [2 C, H], place bias [3, C], norm [D].
KeyCompressor compressor_of(const std::vector<at::Tensor>& x, bool overlaps) {
  KeyCompressor made;
  made.ratio = 3;
  made.overlaps = overlaps;
  made.value_gate = std::make_unique<Projections>();
  made.value_gate->weight = leaf(x[0]);
  made.value_gate->part_rows = {x[0].size(0) / 2, x[0].size(0) / 2};
  made.place_bias = leaf(x[1]);
  made.norm = std::make_unique<Norm>();
  made.norm->weight = leaf(x[2]);
  return made;
}

std::vector<at::Tensor> weights_of(bool overlaps) {
  const int64_t width = overlaps ? 2 * kSize : kSize;
  return {sample_values({2 * width, kHidden}, 0.4), sample_values({3, width}, 0.7),
          sample_values({kSize}, 0.2) + 1.5};
}

// The tables of cos and sin turn four of the six numbers.
LayerContext context_of(int64_t rows, int64_t length) {
  LayerContext context;
  context.rows = rows;
  const at::Tensor angles = at::arange(length, at::kDouble).unsqueeze(1) *
                            at::tensor({1.0, 0.3}, at::kDouble).unsqueeze(0);
  context.rope_cos = angles.cos().repeat({rows, 1});
  context.rope_sin = angles.sin().repeat({rows, 1});
  return context;
}

class KeyCompressorBy : public testing::TestWithParam<bool> {};

TEST_P(KeyCompressorBy, LoopsGiveTheSame) {
  const bool overlaps = GetParam();
  const auto weights = weights_of(overlaps);
  const KeyCompressor made = compressor_of(weights, overlaps);
  const int64_t rows = 2, length = 11;  // three groups, two tokens are left over
  const LayerContext context = context_of(rows, length);
  const at::Tensor x = sample_values({rows * length, kHidden}, 0.1);
  const at::Tensor got = made.forward(x, context);
  ASSERT_EQ(got.sizes(), (std::vector<int64_t>{rows, 3, kSize}));
  const int64_t width = weights[0].size(0) / 2;
  const at::Tensor value = x.matmul(weights[0].narrow(0, 0, width).t());
  const at::Tensor gate = x.matmul(weights[0].narrow(0, width, width).t());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t e = 0; e < 3; ++e) {
      std::vector<at::Tensor> values, gates;
      const auto add = [&](int64_t group, int64_t column) {
        for (int64_t j = 0; j < 3; ++j) {
          const int64_t t = row * length + group * 3 + j;
          values.push_back(value[t].narrow(0, column, kSize));
          gates.push_back((gate[t] + weights[1][j]).narrow(0, column, kSize));
        }
      };
      if (overlaps && e > 0) add(e - 1, 0);
      add(e, overlaps ? kSize : 0);
      const at::Tensor sum = (at::stack(gates).softmax(0) * at::stack(values)).sum(0);
      const at::Tensor normed = sum / (sum.square().mean() + 1e-6).sqrt() * weights[2];
      const at::Tensor want =
          rotate_tail(normed.view({1, 1, kSize}), context.rope_cos.narrow(0, e * 3, 1),
                      context.rope_sin.narrow(0, e * 3, 1));
      EXPECT_TRUE(at::allclose(got[row][e], want.flatten(), 1e-12, 1e-12)) << row << " " << e;
    }
  }
}

TEST_P(KeyCompressorBy, GradientsByDifferences) {
  const bool overlaps = GetParam();
  auto inputs = weights_of(overlaps);
  inputs.push_back(sample_values({2 * 7, kHidden}, 0.1));
  const LayerContext context = context_of(2, 7);
  expect_gradients_by_differences(
      [&](const std::vector<at::Tensor>& x) {
        return compressor_of(x, overlaps).forward(x[3], context);
      },
      inputs, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Overlap, KeyCompressorBy, testing::Bool());

TEST(KeyCompressor, ASampleShorterThanAGroupHasNoEntries) {
  const KeyCompressor made = compressor_of(weights_of(true), true);
  EXPECT_EQ(made.forward(sample_values({4, kHidden}, 0.1), context_of(2, 2)).sizes(),
            (std::vector<int64_t>{2, 0, kSize}));
}

TEST(TailRotary, TurnsNeighboursOfTheEndAndBack) {
  const LayerContext context = context_of(1, 4);
  const at::Tensor &cos = context.rope_cos, &sin = context.rope_sin;
  const at::Tensor x = sample_values({4, 2, kSize}, 0.6);
  const at::Tensor y = rotate_tail(x, cos, sin);
  EXPECT_TRUE(at::equal(y.narrow(2, 0, 2), x.narrow(2, 0, 2)));
  const at::Tensor c = cos.select(1, 1).unsqueeze(1), s = sin.select(1, 1).unsqueeze(1);
  const at::Tensor even = x.select(2, 4), odd = x.select(2, 5);
  EXPECT_TRUE(at::allclose(y.select(2, 4), even * c - odd * s));
  EXPECT_TRUE(at::allclose(y.select(2, 5), odd * c + even * s));
  EXPECT_TRUE(at::allclose(rotate_tail(y, cos, sin, -1), x, 1e-13, 1e-13));
}

}  // namespace
}  // namespace tessera
