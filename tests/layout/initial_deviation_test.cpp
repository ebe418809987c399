#include "tessera/layout/initial_deviation.h"

#include <gtest/gtest.h>

#include "tessera/config/family.h"

namespace tessera {
namespace {

TEST(InitialDeviation, TheLastRuleThatMatchesFromTheStartDecides) {
  ModelConfig model;
  model.initializer_range = 0.02;
  model.param_init_std_rules = {
      {".*self_attention", 0.5}, {"decoder.*linear_proj", 0.25}, {"embed_tokens", 9.0}};
  const InitialDeviation deviation(model);
  EXPECT_EQ(deviation.of("model.layers.3.self_attn.q_proj.weight"), 0.5);
  EXPECT_EQ(deviation.of("model.layers.3.self_attn.o_proj.weight"), 0.25);
  EXPECT_EQ(deviation.of("model.layers.3.mlp.gate_proj.weight"), 0.02);
  EXPECT_EQ(deviation.of("model.embed_tokens.weight"), 0.02) << "a match must start the name";
}

}  // namespace
}  // namespace tessera
