#include "tessera/nn/attention/rope.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <tuple>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/nn/attention/rotary.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {
namespace {

ModelConfig with_scaling(const RopeScaling& scaling, double theta = 10000.0) {
  ModelConfig model;
  model.rope_theta = theta;
  model.rope_scaling = scaling;
  model.rotary_dtype = DType::kFloat64;
  return model;
}

// The published formulas (transformers, modeling_rope_utils), worked out by hand.
void expect_rope(const Rope& rope, const std::vector<double>& frequencies, double amplitude) {
  ASSERT_EQ(rope.inv_freq.size(), frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    EXPECT_NEAR(rope.inv_freq[i], frequencies[i], 1e-14 * frequencies[i]) << i;
  }
  EXPECT_NEAR(rope.amplitude, amplitude, 1e-14);
}

TEST(Rope, DefaultAndLinear) {
  const Rope plain = make_rope(with_scaling({}), 8);
  expect_rope(plain, {1.0, 0.1, 0.01, 0.001}, 1.0);
  RopeScaling scaling;
  scaling.rope_type = "linear";
  scaling.factor = 4;
  expect_rope(make_rope(with_scaling(scaling), 8), {0.25, 0.025, 0.0025, 0.00025}, 1.0);
}

TEST(Rope, Llama3KeepsShortInterpolatesMiddleDividesLong) {
  RopeScaling scaling;
  scaling.rope_type = "llama3";
  scaling.factor = 8;
  scaling.low_freq_factor = 1;
  scaling.high_freq_factor = 4;
  scaling.original_max_position_embeddings = 128;
  const Rope rope = make_rope(with_scaling(scaling, 10000.0), 8);
  // Wavelengths 6.28 (< 32: kept), 62.8 (between), 628 and 6283 (> 128: divided).
  const double smooth = (128 / (2 * M_PI / 0.1) - 1) / 3;
  expect_rope(rope, {1.0, (1 - smooth) * 0.1 / 8 + smooth * 0.1, 0.01 / 8, 0.001 / 8}, 1.0);
}

TEST(Rope, YarnRampsBetweenTheTwo) {
  RopeScaling scaling;
  scaling.rope_type = "yarn";
  scaling.factor = 4;
  scaling.original_max_position_embeddings = 64;
  scaling.beta_fast = 4;
  scaling.beta_slow = 0.5;
  const Rope rope = make_rope(with_scaling(scaling, 100.0), 8);
  // dimension(4) = 8 ln(64 / (4 * 2 pi)) / (2 ln 100) = 0.81 -> 0, dimension(1/2) = 2.62 -> 3.
  const double base[] = {1.0, std::pow(100.0, -0.25), 0.1, std::pow(100.0, -0.75)};
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i) {
    const double ramp = i / 3.0;
    expected.push_back(base[i] / 4 * ramp + base[i] * (1 - ramp));
  }
  expect_rope(rope, expected, 0.1 * std::log(4.0) + 1);
  scaling.mscale = 1.0;
  scaling.mscale_all_dim = 0.5;
  EXPECT_NEAR(make_rope(with_scaling(scaling, 100.0), 8).amplitude,
              (0.1 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1), 1e-14);
  scaling.attention_factor = 1.25;
  EXPECT_EQ(make_rope(with_scaling(scaling, 100.0), 8).amplitude, 1.25);
}

TEST(Rope, WhatIsMissingOrUnknownIsNamed) {
  RopeScaling scaling;
  scaling.rope_type = "llama3";
  EXPECT_THROW(make_rope(with_scaling(scaling), 8), ConfigError);
  scaling.rope_type = "ntk";
  EXPECT_THROW(make_rope(with_scaling(scaling), 8), ConfigError);
}

TEST(Rope, TablesFollowThePositions) {
  const Rope rope = make_rope(with_scaling({}), 8);
  LayerContext context;
  context.positions = at::tensor({0, 5, 1, 0}, at::kLong);
  std::tie(context.rope_cos, context.rope_sin) = rope.tables(context.positions);
  EXPECT_EQ(context.rope_cos.sizes(), (std::vector<int64_t>{4, 4}));
  EXPECT_NEAR(context.rope_cos[1][1].item<double>(), std::cos(0.5), 1e-15);
  EXPECT_NEAR(context.rope_sin[1][0].item<double>(), std::sin(5.0), 1e-15);
  EXPECT_EQ(context.rope_sin[3][2].item<double>(), 0.0);
}

// Long positions in float32 tables: the angle itself must not be rounded to float32.
TEST(Rope, FarPositionsKeepTheirAngle) {
  ModelConfig model = with_scaling({});
  model.rotary_dtype = DType::kFloat32;
  const Rope rope = make_rope(model, 8);
  LayerContext context;
  context.positions = at::tensor({1'000'003}, at::kLong);
  std::tie(context.rope_cos, context.rope_sin) = rope.tables(context.positions);
  EXPECT_EQ(context.rope_cos.scalar_type(), at::kFloat);
  EXPECT_NEAR(context.rope_cos[0][1].item<double>(), std::cos(100000.3), 1e-7);
}

// rotary_dtype says in which type values are rotated, whatever the type of x.
TEST(Rope, RotaryDtype) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    ModelConfig model = with_scaling({});
    model.rotary_dtype = dtype;
    LayerContext context;
    context.positions = at::arange(6, at::kLong);
    std::tie(context.rope_cos, context.rope_sin) = make_rope(model, 8).tables(context.positions);
    const auto type = scalar_type(dtype);
    ASSERT_EQ(context.rope_cos.scalar_type(), type);
    for (const auto of_x : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const at::Tensor x = at::linspace(-2, 2, 6 * 2 * 8, at::kDouble).view({6, 2, 8}).to(of_x);
      const at::Tensor rounded = x.to(type).to(at::kDouble);
      const at::Tensor low = rounded.narrow(2, 0, 4), high = rounded.narrow(2, 4, 4);
      const at::Tensor c = context.rope_cos.to(at::kDouble).unsqueeze(1);
      const at::Tensor s = context.rope_sin.to(at::kDouble).unsqueeze(1);
      const at::Tensor exact = at::cat({low * c - high * s, high * c + low * s}, 2);
      const at::Tensor y = apply_rotary(x, context.rope_cos, context.rope_sin);
      EXPECT_EQ(y.scalar_type(), of_x);
      const bool coarse = type == at::kBFloat16 || of_x == at::kBFloat16;
      const bool fine = type == at::kDouble && of_x == at::kDouble;
      const double tolerance = coarse ? 2e-2 : fine ? 1e-14 : 1e-6;
      EXPECT_LT((y.to(at::kDouble) - exact).abs().max().item<double>(), tolerance);
      // Narrow values under a wide x: what comes out is a narrow value.
      if (type == at::kBFloat16) {
        EXPECT_TRUE(at::equal(y, y.to(type).to(of_x)));
      }
    }
  }
}

}  // namespace
}  // namespace tessera
