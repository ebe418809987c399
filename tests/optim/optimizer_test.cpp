#include "tessera/optim/optimizers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/grad_norm.h"
#include "tessera/optim/weight_decay.h"

namespace tessera {
namespace {

TEST(Decay, FirstHitWins) {
  OptimizerConfig config;
  EXPECT_TRUE(is_decayed(config, "model.layers.0.mlp.up_proj.weight", 2));
  EXPECT_FALSE(is_decayed(config, "model.norm.weight", 1));
  EXPECT_FALSE(is_decayed(config, "model.layers.0.self_attn.q_proj.bias", 1));
  config.weight_decay_exclude = {"embed_tokens"};
  EXPECT_FALSE(is_decayed(config, "model.embed_tokens.weight", 2));
  config.weight_decay_include = {"model.embed*", "model.norm.weight"};
  EXPECT_TRUE(is_decayed(config, "model.embed_tokens.weight", 2));
  EXPECT_TRUE(is_decayed(config, "model.norm.weight", 1));
}

TEST(Decay, RulesKnowMindFormersNames) {
  OptimizerConfig config;
  config.weight_decay_exclude = {"word_embeddings", "*.linear_qkv.*",
                                 "decoder.layers.1.mlp.linear_fc2"};
  EXPECT_FALSE(is_decayed(config, "model.embed_tokens.weight", 2));
  EXPECT_FALSE(is_decayed(config, "model.layers.3.self_attn.k_proj.weight", 2));
  EXPECT_FALSE(is_decayed(config, "model.layers.1.mlp.down_proj.weight", 2));
  EXPECT_TRUE(is_decayed(config, "model.layers.2.mlp.down_proj.weight", 2));
}

// A table of one matrix and one vector with gradients, on one rank.
void with_table(at::ScalarType dtype,
                const std::function<void(ParamTable&, const DeviceMesh&)>& use) {
  run_ranks(1, [&](const ProcessGroup& world) {
    const DeviceMesh mesh(ParallelDims{}, world);
    ParamTable table;
    for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
             {"a.weight", {5, 3}}, {"b.weight", {7}}}) {
      ShardedParam param;
      param.name = name;
      param.shape = shape;
      ShardedParam& row = table.add(std::move(param), mesh);
      const auto options = at::TensorOptions().dtype(dtype);
      row.value = at::linspace(-1, 1, row.box.numel(), options).view(shape).clone();
      row.grad = at::linspace(0.3, -0.2, row.box.numel(), options).view(shape).clone();
    }
    use(table, mesh);
  });
}

// torch.optim.AdamW's formula, written out.
TEST(AdamW, IsTheFormula) {
  with_table(at::kDouble, [](ParamTable& table, const DeviceMesh& mesh) {
    Config whole;
    OptimizerConfig& config = whole.optimizer;
    config.kind = builtin_optimizers().find("AdamW");
    config.betas = {0.9, 0.95};
    config.eps = 1e-3;
    config.weight_decay = 0.1;
    const auto optimizer = make_optimizer(whole, table, mesh);
    struct State {
      double p, m = 0, v = 0;
    };
    std::vector<std::vector<State>> states;
    for (const auto& param : table.params()) {
      states.emplace_back();
      for (int64_t i = 0; i < param->value.numel(); ++i) {
        states.back().push_back({param->value.flatten()[i].item<double>()});
      }
    }
    const double scale = 0.5;
    for (int t = 1; t <= 3; ++t) {
      const double lr = 0.01 * t;
      std::vector<at::Tensor> grads;
      for (const auto& param : table.params()) grads.push_back(param->grad.clone());
      optimizer->step(lr, scale);
      for (size_t k = 0; k < states.size(); ++k) {
        ShardedParam& param = *table.params()[k];
        const double decay = param.shape.size() > 1 ? 0.1 : 0.0;
        for (size_t i = 0; i < states[k].size(); ++i) {
          State& s = states[k][i];
          const double g = scale * grads[k].flatten()[static_cast<int64_t>(i)].item<double>();
          s.p *= 1 - lr * decay;
          s.m = 0.9 * s.m + 0.1 * g;
          s.v = 0.95 * s.v + 0.05 * g * g;
          s.p -=
              lr / (1 - std::pow(0.9, t)) * s.m / (std::sqrt(s.v / (1 - std::pow(0.95, t))) + 1e-3);
          EXPECT_NEAR(param.value.flatten()[static_cast<int64_t>(i)].item<double>(), s.p, 1e-14);
        }
        param.grad = at::cos(grads[k] * t);
      }
    }
    EXPECT_EQ(optimizer->updates(), 3);
  });
}

TEST(Sgd, MomentumAndDecayAreTheFormula) {
  with_table(at::kDouble, [](ParamTable& table, const DeviceMesh& mesh) {
    Config whole;
    OptimizerConfig& config = whole.optimizer;
    config.type = "SGD";
    config.kind = builtin_optimizers().find("SGD");
    config.momentum = 0.9;
    config.weight_decay = 0.1;
    const auto optimizer = make_optimizer(whole, table, mesh);
    ShardedParam& matrix = *table.params()[0];
    const at::Tensor p0 = matrix.value.clone(), g = matrix.grad.clone();
    optimizer->step(0.1, 1.0);
    const at::Tensor b1 = g + 0.1 * p0;
    const at::Tensor p1 = p0 - 0.1 * b1;
    EXPECT_TRUE(at::allclose(matrix.value, p1, 0, 1e-15));
    matrix.grad = g.clone();
    optimizer->step(0.1, 1.0);
    EXPECT_TRUE(at::allclose(matrix.value, p1 - 0.1 * (0.9 * b1 + g + 0.1 * p1), 0, 1e-15));
  });
}

TEST(GradientNorm, AddsSquaresInFloat64) {
  // 2^22 equal elements: float32 sums of squares come out short.
  const at::Tensor g = at::full({int64_t{1} << 22}, 0.1F);
  const double square = static_cast<double>(0.1F) * static_cast<double>(0.1F);
  EXPECT_NEAR(sum_of_squares(g) / (square * static_cast<double>(g.numel())), 1.0, 1e-12);
  EXPECT_DOUBLE_EQ(sum_of_squares(at::tensor({3.0, 4.0}, at::kDouble)), 25.0);
  EXPECT_DOUBLE_EQ(sum_of_squares(at::tensor({3.0, 4.0}, at::kFloat).to(at::kBFloat16)), 25.0);
  EXPECT_EQ(sum_of_squares(at::empty({0})), 0.0);
}

TEST(Clipping, ScalesDownOnlyAndNeverWithoutALimit) {
  EXPECT_DOUBLE_EQ(clip_coefficient(2.0, 1.0), 1.0 / (2.0 + 1e-6));
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(2.0, 0.0), 1.0);
  EXPECT_EQ(clip_coefficient(2.0, -1.0), 1.0);
}

}  // namespace
}  // namespace tessera
