#include "tessera/layout/model_spec.h"

#include <fstream>
#include <map>

#include "tessera/base/error.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using testing_config::deepseek;
using testing_config::kBase;
using testing_config::moe;

ModelConfig model_of(const std::vector<std::string>& sets = {}) {
  const ConfigResult result = load_config_text(kBase, "x.yaml", "/nonexistent", sets);
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config.model;
}

std::map<std::string, ParamSpec> by_name(const std::vector<ParamSpec>& spec) {
  std::map<std::string, ParamSpec> map;
  for (const ParamSpec& param : spec) EXPECT_TRUE(map.emplace(param.name, param).second);
  return map;
}

TEST(ModelSpec, CountsOfPublishedModels) {
  const auto count = [](const std::string& text) {
    return count_parameters(
        model_spec(load_config_text(text, "x", "/nonexistent", {}).config.model));
  };
  EXPECT_EQ(count("model: {model_type: llama, vocab_size: 128256, hidden_size: 4096, "
                  "intermediate_size: 14336, num_hidden_layers: 32, num_attention_heads: 32, "
                  "num_key_value_heads: 8, head_dim: 128}"),
            8030261248);  // Llama 3 8B
  EXPECT_EQ(count("model: {model_type: qwen3, vocab_size: 151936, hidden_size: 1024, "
                  "intermediate_size: 3072, num_hidden_layers: 28, num_attention_heads: 16, "
                  "num_key_value_heads: 8, head_dim: 128, tie_word_embeddings: true}"),
            596049920);  // Qwen3 0.6B
  EXPECT_EQ(count("model: {model_type: qwen3_moe, vocab_size: 151936, hidden_size: 2048, "
                  "num_hidden_layers: 48, num_attention_heads: 32, num_key_value_heads: 4, "
                  "head_dim: 128, num_experts: 128, moe_intermediate_size: 768}"),
            30532122624);  // Qwen3 30B-A3B
  EXPECT_EQ(count("model: {model_type: deepseek_v3, qk_layernorm: true}"),
            671026404352);  // DeepSeek-V3, without the layer of multi-token prediction
}

TEST(ModelSpec, OrderRolesAndLayers) {
  const auto spec = model_spec(model_of());
  EXPECT_EQ(spec.front().name, "model.embed_tokens.weight");
  EXPECT_EQ(spec.back().name, "lm_head.weight");
  const auto map = by_name(spec);
  const ParamSpec& q = map.at("model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(q.shape, (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(q.role, ParamRole::kAttnQ);
  EXPECT_EQ(q.layer, 3);
  EXPECT_EQ(map.at("model.norm.weight").layer, -1);
  EXPECT_EQ(map.at("model.layers.0.mlp.down_proj.weight").shape, (std::vector<int64_t>{64, 176}));
  EXPECT_FALSE(map.contains("model.layers.0.self_attn.q_norm.weight"));
  EXPECT_FALSE(map.contains("model.layers.0.self_attn.q_proj.bias"));
}

TEST(ModelSpec, BiasesAndGroupedHeads) {
  const auto map = by_name(model_spec(model_of(
      {"model.attention_bias=true", "model.mlp_bias=true", "model.num_key_value_heads=2"})));
  EXPECT_EQ(map.at("model.layers.0.self_attn.k_proj.weight").shape, (std::vector<int64_t>{16, 64}));
  EXPECT_EQ(map.at("model.layers.0.self_attn.k_proj.bias").shape, (std::vector<int64_t>{16}));
  EXPECT_EQ(map.at("model.layers.0.self_attn.o_proj.bias").shape, (std::vector<int64_t>{64}));
  EXPECT_EQ(map.at("model.layers.0.mlp.down_proj.bias").role, ParamRole::kMlpDownBias);
}

TEST(ModelSpec, TiedHeadIsCountedOnce) {
  const ModelConfig untied = model_of();
  const ModelConfig tied = model_of({"model.tie_word_embeddings=true"});
  EXPECT_EQ(model_spec(tied).back().tied_to, "model.embed_tokens.weight");
  EXPECT_EQ(count_parameters(model_spec(untied)) - count_parameters(model_spec(tied)), 512 * 64);
}

TEST(ModelSpec, ExpertsAreOneByOne) {
  const auto map = by_name(model_spec(model_of(moe())));
  EXPECT_EQ(map.at("model.layers.1.mlp.experts.7.down_proj.weight").shape,
            (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(map.at("model.layers.1.mlp.experts.7.down_proj.weight").expert, 7);
  EXPECT_EQ(map.at("model.layers.1.mlp.gate.weight").expert, -1);
  EXPECT_TRUE(map.contains("model.layers.1.self_attn.k_norm.weight"));
}

TEST(ModelSpec, MultiTokenPredictionHasItsLayer) {
  const auto map = by_name(model_spec(
      model_of(deepseek({"model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.1"}))));
  EXPECT_EQ(map.at("model.layers.4.eh_proj.weight").shape, (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(map.at("model.layers.4.shared_head.head.weight").tied_to, "lm_head.weight");
  EXPECT_EQ(map.at("model.layers.4.embed_tokens.weight").tied_to, "model.embed_tokens.weight");
  EXPECT_TRUE(map.contains("model.layers.4.mlp.experts.0.up_proj.weight"));
  EXPECT_TRUE(map.contains("model.layers.4.input_layernorm.weight"));
  EXPECT_FALSE(map.at("model.layers.1.mlp.gate.e_score_correction_bias").trainable);
}

TEST(ModelSpec, LayersWithExperts) {
  ModelConfig model;
  model.num_hidden_layers = 6;
  model.n_routed_experts = 4;
  const auto pattern = [&] {
    std::string out;
    for (int64_t layer = 0; layer < 6; ++layer) out += model.is_moe_layer(layer) ? '1' : '0';
    return out;
  };
  EXPECT_EQ(pattern(), "111111");
  model.moe_layer_freq = int64_t{2};
  EXPECT_EQ(pattern(), "101010");
  model.moe_layer_freq = int64_t{1};
  model.decoder_sparse_step = 2;
  EXPECT_EQ(pattern(), "010101");
  model.mlp_only_layers = {3};
  EXPECT_EQ(pattern(), "010001");
  model.mlp_only_layers = {};
  model.decoder_sparse_step = 1;
  model.first_k_dense_replace = 4;
  EXPECT_EQ(pattern(), "000011");
  model.first_k_dense_replace = 0;
  model.moe_layer_freq = std::vector<int64_t>{0, 1, 1, 0, 0, 1};
  EXPECT_EQ(pattern(), "011001");
  model.n_routed_experts = 0;
  EXPECT_EQ(pattern(), "000000");
}

TEST(ModelSpec, SoftmaxScale) {
  ModelConfig model;
  model.head_dim = 16;
  EXPECT_DOUBLE_EQ(attention_scale(model), 0.25);
  model.family = builtin_families().find("deepseek_v3");
  model.qk_nope_head_dim = 48;
  model.qk_rope_head_dim = 16;
  EXPECT_DOUBLE_EQ(attention_scale(model), 0.125);
  model.rotary_scaling_factor = 1.0;
  EXPECT_DOUBLE_EQ(attention_scale(model), 0.125);
  model.rope_scaling.rope_type = "yarn";
  model.rope_scaling.factor = 40.0;
  model.rope_scaling.mscale_all_dim = 1.0;
  const double magnitude = 0.1 * std::log(40.0) + 1.0;
  EXPECT_DOUBLE_EQ(attention_scale(model), 0.125 * magnitude * magnitude);
}

}  // namespace
}  // namespace tessera
