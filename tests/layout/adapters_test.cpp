// Which matrices have adapters, what these are called, and how they are cut.

#include "tessera/layout/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/config/load.h"

namespace tessera::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

ModelConfig small_model(const std::string& type) {
  const ConfigResult result = load_config_text(
      "model: {model_type: " + type +
          ", vocab_size: 64, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
          "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8" +
          (type == "qwen3_moe" ? ", num_experts: 4, num_experts_per_tok: 2, "
                                 "moe_intermediate_size: 16}"
                               : "}"),
      "test.yaml", ".", {});
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config.model;
}

std::vector<std::string> adapters_of(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const ParamSpec& spec : model_spec(model)) {
    if (!spec.adapts.empty()) names.push_back(spec.name);
  }
  return names;
}

ModelConfig with(ModelConfig model, const std::string& target, const std::string& exclude = "") {
  model.lora.target_modules = target;
  if (!exclude.empty()) model.lora.exclude_layers = exclude;
  return model;
}

TEST(Adapters, FollowTheirMatrixUnderPeftsNames) {
  const ModelConfig model = with(small_model("qwen3"), R"(layers\.0\..*q_proj$)");
  EXPECT_THAT(adapters_of(model), ElementsAre("model.layers.0.self_attn.q_proj.lora_A.weight",
                                              "model.layers.0.self_attn.q_proj.lora_B.weight"));
  const std::vector<ParamSpec> spec = model_spec(model);
  const auto a = std::ranges::find_if(spec, [](const ParamSpec& p) { return !p.adapts.empty(); });
  EXPECT_EQ((a - 1)->name, a->adapts);
  EXPECT_TRUE((a - 1)->frozen);
  EXPECT_FALSE(a->frozen);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{8, model.hidden_size}));
  EXPECT_EQ((a + 1)->shape, (std::vector<int64_t>{(a - 1)->shape[0], 8}));
}

TEST(Adapters, NamesOfMindFormersMeanTheSeparateMatrices) {
  const ModelConfig model =
      with(small_model("qwen3"), R"(decoder\.layers\.1\.self_attention\.linear_qkv$)");
  EXPECT_THAT(adapters_of(model), ElementsAre("model.layers.1.self_attn.q_proj.lora_A.weight",
                                              "model.layers.1.self_attn.q_proj.lora_B.weight",
                                              "model.layers.1.self_attn.k_proj.lora_A.weight",
                                              "model.layers.1.self_attn.k_proj.lora_B.weight",
                                              "model.layers.1.self_attn.v_proj.lora_A.weight",
                                              "model.layers.1.self_attn.v_proj.lora_B.weight"));
}

TEST(Adapters, ExcludedIsTheWholeSubtreeOfAModule) {
  const std::vector<std::string> names =
      adapters_of(with(small_model("qwen3"), "layers", R"(layers\.0$|mlp$)"));
  EXPECT_THAT(names, Contains("model.layers.1.self_attn.q_proj.lora_A.weight"));
  for (const std::string& name : names) {
    EXPECT_EQ(name.find("layers.0."), std::string::npos) << name;
    EXPECT_EQ(name.find("mlp"), std::string::npos) << name;
  }
}

TEST(Adapters, NeitherNormsNorRoutersHaveThem) {
  for (const std::string& name : adapters_of(with(small_model("qwen3_moe"), "layers"))) {
    EXPECT_EQ(name.find("norm"), std::string::npos) << name;
    EXPECT_EQ(name.find("mlp.gate.lora"), std::string::npos) << name;
  }
}

TEST(Adapters, OfSomeExpertsOnlyAreNone) {
  const ModelConfig model = with(small_model("qwen3_moe"), R"(experts\.0\.up_proj)");
  EXPECT_THAT(adapters_of(model), IsEmpty());
  const AdapterMatches matches = adapter_matches(model);
  EXPECT_EQ(matches.matrices, 0U);
  EXPECT_THAT(matches.some_experts, Contains("model.layers.0.mlp.experts.1.up_proj"));
  EXPECT_THAT(matches.some_experts, Not(Contains("model.layers.0.mlp.experts.0.up_proj")));
}

TEST(Adapters, AreCutAsTheirMatrixIs) {
  const LayerDesign design;
  using Role = ParamRole;
  const auto role = [&](Role matrix, AdapterSide side) {
    return adapter_role(matrix, side, design);
  };
  EXPECT_EQ(role(Role::kAttnQ, AdapterSide::kA), Role::kAdapter);
  EXPECT_EQ(role(Role::kAttnQ, AdapterSide::kB), Role::kAdapterRows);
  EXPECT_EQ(role(Role::kAttnK, AdapterSide::kB), Role::kAdapterKvRows);
  EXPECT_EQ(role(Role::kMlpDown, AdapterSide::kA), Role::kAdapterColumns);
  EXPECT_EQ(role(Role::kMlpDown, AdapterSide::kB), Role::kAdapter);
  EXPECT_EQ(role(Role::kSharedUp, AdapterSide::kB), Role::kAdapter);
  EXPECT_EQ(role(Role::kExpertUp, AdapterSide::kB), Role::kExpertAdapter);
}

TEST(Adapters, FirstTrainedLayerIsTheFirstWithOne) {
  EXPECT_EQ(first_trained_layer(small_model("qwen3")), -1);
  EXPECT_EQ(first_trained_layer(with(small_model("qwen3"), R"(layers\.1\.)")), 1);
}

}  // namespace
}  // namespace tessera::test
