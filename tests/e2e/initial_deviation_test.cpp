// model.param_init_std_rules: weights start with the deviation of their rule, in every layout.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

// Deviations of rank 0's part of every weight as it starts.
std::map<std::string, double> deviations(const std::string& name, const Set& set, int64_t ranks) {
  std::map<std::string, double> all;
  TrainerOptions options;
  options.on_model = [&](ParallelModel& model, const DeviceMesh& mesh) {
    if (mesh.rank() != 0) return;
    for (const auto& param : model.table.params()) {
      all[param->name] = param->value.square().mean().sqrt().item<double>();
    }
  };
  run_until(load_case(name, set + Set{"checkpoint.load_path=''"}, ranks), ranks, 1, options);
  return all;
}

TEST(InitialDeviations, AreThoseOfTheRules) {
  const Set rules = {"model.initializer_range=0.02",
                     "model.param_init_std_rules=[{target: '.*self_attention', init_method_std: "
                     "0.5}, {target: '.*o_proj', init_method_std: 0.125}, "
                     "{target: lm_head, init_method_std: 0.0}]"};
  for (const Layout& layout :
       {Layout{"one", 1, {}}, Layout{"tp2_shard2", 4, {tp(2), shard(2), local_batch(2)}}}) {
    const auto std_of = deviations("llama_sgd64", rules + layout.set, layout.ranks);
    EXPECT_NEAR(std_of.at("model.layers.1.self_attn.q_proj.weight"), 0.5, 0.05) << layout.name;
    EXPECT_NEAR(std_of.at("model.layers.1.self_attn.o_proj.weight"), 0.125, 0.0125);
    EXPECT_NEAR(std_of.at("model.layers.1.mlp.up_proj.weight"), 0.02, 0.002);
    EXPECT_EQ(std_of.at("lm_head.weight"), 0.0);
    EXPECT_EQ(std_of.at("model.layers.1.input_layernorm.weight"), 1.0) << "norms start at one";
  }
}

TEST(InitialDeviations, OfExperts) {
  const auto std_of = deviations(
      "qwen3_moe64",
      {"model.param_init_std_rules=[{target: '.*experts.*down_proj', init_method_std: 0.25}]"}, 1);
  EXPECT_NEAR(std_of.at("model.layers.1.mlp.experts.{e}.down_proj.weight"), 0.25, 0.02);
  EXPECT_NEAR(std_of.at("model.layers.1.mlp.experts.{e}.up_proj.weight"), 0.12, 0.01);
}

}  // namespace
}  // namespace tessera::test
