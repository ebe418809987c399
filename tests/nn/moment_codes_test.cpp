#include "tessera/nn/kernels/moment_codes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

const Box kWhole{{0, 0}, {13, 100}};

at::Tensor numbers() {
  const at::Tensor i = at::arange(1300, at::kFloat);
  return (at::sin(i * 0.7) * at::exp(at::cos(i * 0.13) * 6)).view({13, 100}).clone();
}

TEST(MomentCodes, AreTheDynamicMap) {
  const auto& codes = moment_codes(true);
  EXPECT_TRUE(std::ranges::is_sorted(codes));
  EXPECT_EQ(codes.back(), 1.0F);
  EXPECT_EQ(std::ranges::count(codes, 0.0F), 1);
  // As bitsandbytes' create_dynamic_map() has them.
  EXPECT_FLOAT_EQ(codes.front(), -0.99296875F);
  EXPECT_FLOAT_EQ(codes[254], 0.99296875F);
  EXPECT_FLOAT_EQ(*std::ranges::upper_bound(codes, 0.0F), 5.5e-7F);
  const auto& positive = moment_codes(false);
  EXPECT_TRUE(std::ranges::is_sorted(positive));
  EXPECT_EQ(positive.front(), 0.0F);
  EXPECT_FLOAT_EQ(positive[1], 3.25e-7F);
  EXPECT_FLOAT_EQ(positive[254], 0.996484375F);
}

TEST(MomentCodes, AreOneOfTheTwoAround) {
  const at::Tensor x = numbers();
  const MatrixBlocks blocks = matrix_blocks(100, kWhole);
  for (const bool is_signed : {true, false}) {
    const at::Tensor values = is_signed ? x : x.abs();
    const at::Tensor scales = at::empty({blocks.count});
    const at::Tensor codes = at::empty({13, 100}, at::kByte);
    block_maxima(values, blocks, scales);
    encode_moments(values, blocks, scales, is_signed, 5, 1, codes);
    const auto& map = moment_codes(is_signed);
    for (int64_t i = 0; i < 1300; ++i) {
      const float scale = scales[i / kMomentBlock].item<float>();
      const float share = values.flatten()[i].item<float>() / scale;
      const float y = is_signed ? share : std::sqrt(share);
      const float taken = map[codes.flatten()[i].item<uint8_t>()];
      const auto above = std::ranges::upper_bound(map, y);
      const float high = above == map.end() ? map.back() : *above;
      const float low = above == map.begin() ? map.front() : *(above - 1);
      EXPECT_TRUE(taken == high || taken == low) << y << " became " << taken;
    }
    // Numbers that codes stand for keep their codes.
    const at::Tensor back = at::empty_like(values), again = at::empty_like(codes);
    decode_moments(codes, blocks, scales, is_signed, back);
    encode_moments(back, blocks, scales, is_signed, 5, 2, again);
    EXPECT_TRUE(at::equal(codes, again));
  }
}

TEST(MomentCodes, ZerosStayZeros) {
  const MatrixBlocks blocks = matrix_blocks(100, kWhole);
  const at::Tensor values = at::zeros({13, 100}), scales = at::zeros({blocks.count});
  const at::Tensor codes = at::empty({13, 100}, at::kByte), back = at::ones({13, 100});
  encode_moments(values, blocks, scales, true, 17, 3, codes);
  decode_moments(codes, blocks, scales, true, back);
  EXPECT_TRUE(at::equal(back, values));
}

// Signed codes in what they stand for, unsigned ones in the root of it.
TEST(MomentCodes, AreRightOnAverage) {
  const MatrixBlocks blocks = matrix_blocks(100, kWhole);
  for (const bool is_signed : {true, false}) {
    const float low = moment_codes(is_signed)[200], high = moment_codes(is_signed)[201];
    const at::Tensor x = at::full({13, 100}, low + 0.3F * (high - low));
    const at::Tensor scales = at::ones({blocks.count}), codes = at::empty({13, 100}, at::kByte);
    double sum = 0;
    for (uint64_t step = 1; step <= 40; ++step) {
      encode_moments(is_signed ? x : x.square(), blocks, scales, is_signed, 5, step, codes);
      sum += codes.to(at::kDouble).mean().item<double>();
    }
    EXPECT_NEAR(sum / 40 - 200, 0.3, 0.012);
  }
}

// Six decades below the largest of its block the root of a second moment, by which an update is
// divided, is right within 30 %; codes of the moment itself would miss it by 40 % and more.
TEST(MomentCodes, OfSecondMomentsHoldTheirRoots) {
  const Box box{{0, 0}, {1, 256}};
  const MatrixBlocks blocks = matrix_blocks(256, box);
  const at::Tensor values =
      at::pow(10.0, at::arange(256, at::kFloat) * (-6.0 / 255)).view({1, 256});
  const at::Tensor scales = at::ones({1}), codes = at::empty({1, 256}, at::kByte);
  const at::Tensor back = at::empty({1, 256});
  for (uint64_t step = 1; step <= 10; ++step) {
    encode_moments(values, blocks, scales, false, 17, step, codes);
    decode_moments(codes, blocks, scales, false, back);
    const at::Tensor error = ((back / values).sqrt() - 1).abs();
    EXPECT_LT(error.max().item<float>(), 0.3F);
    EXPECT_LT(error.narrow(1, 0, 85).max().item<float>(), 0.08F);  // of the two highest decades
  }
}

TEST(MomentCodes, NoSecondMomentVanishes) {
  const Box box{{0, 0}, {1, 2}};
  const MatrixBlocks blocks = matrix_blocks(2, box);
  const at::Tensor values = at::tensor({1.0F, 1e-12F}).view({1, 2}), scales = at::ones({1});
  const at::Tensor codes = at::empty({1, 2}, at::kByte), back = at::empty({1, 2});
  encode_moments(values, blocks, scales, false, 17, 3, codes);
  decode_moments(codes, blocks, scales, false, back);
  EXPECT_GT(back[0][1].item<float>(), 0.0F);
  encode_moments(values, blocks, scales, true, 17, 3, codes);
  decode_moments(codes, blocks, scales, true, back);
  EXPECT_EQ(back[0][1].item<float>(), 0.0F);
}

// A part alone, with the scales of whole blocks, has the bits that it has in the whole.
TEST(MomentCodes, DoNotDependOnTheCut) {
  const at::Tensor x = numbers();
  const MatrixBlocks whole = matrix_blocks(100, kWhole);
  const at::Tensor scales = at::empty({whole.count}), codes = at::empty({13, 100}, at::kByte);
  const at::Tensor shorts = at::empty({13, 100}, at::kBFloat16);
  block_maxima(x, whole, scales);
  encode_moments(x, whole, scales, true, 17, 3, codes);
  round_moments(x, whole, 17, 3, shorts);
  for (const Box& box : {Box{{0, 0}, {4, 100}}, Box{{4, 0}, {9, 100}}, Box{{0, 0}, {13, 37}},
                         Box{{2, 37}, {11, 63}}}) {
    const auto part = [&](const at::Tensor& of) {
      return of.narrow(0, box.offsets[0], box.sizes[0])
          .narrow(1, box.offsets[1], box.sizes[1])
          .contiguous();
    };
    const MatrixBlocks blocks = matrix_blocks(100, box);
    std::vector<int64_t> numbers = blocks.numbers();
    const at::Tensor own = scales.index_select(0, at::tensor(numbers, at::kLong));
    const at::Tensor code = at::empty(box.sizes, at::kByte);
    encode_moments(part(x), blocks, own, true, 17, 3, code);
    EXPECT_TRUE(at::equal(code, part(codes)));
    const at::Tensor rounded = at::empty(box.sizes, at::kBFloat16);
    round_moments(part(x), blocks, 17, 3, rounded);
    EXPECT_TRUE(at::equal(rounded, part(shorts)));
  }
}

TEST(MomentRounding, IsRightOnAverageAndKeepsWhatIsShort) {
  const MatrixBlocks blocks = matrix_blocks(100, kWhole);
  const float between = 1.0F + 0.3F / 128;  // of 1 and 1 + 1/128
  const at::Tensor x = at::full({13, 100}, between), shorts = at::empty({13, 100}, at::kBFloat16);
  double sum = 0;
  for (uint64_t step = 1; step <= 40; ++step) {
    round_moments(x, blocks, 5, step, shorts);
    sum += shorts.to(at::kDouble).mean().item<double>();
  }
  // 52,000 draws of a share of 0.3: six deviations are 0.012 of the step.
  EXPECT_NEAR((sum / 40 - 1.0) * 128, 0.3, 0.012);
  const at::Tensor exact = numbers().to(at::kBFloat16);
  round_moments(exact.to(at::kFloat), blocks, 5, 1, shorts);
  EXPECT_TRUE(at::equal(shorts, exact));
  const at::Tensor other = at::empty_like(shorts);
  round_moments(x, blocks, 5, 1, shorts);
  round_moments(x, blocks, 6, 1, other);
  EXPECT_FALSE(at::equal(shorts, other));
}

}  // namespace
}  // namespace tessera
