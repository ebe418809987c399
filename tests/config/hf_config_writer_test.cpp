// config.json written and read again is the same model.

#include "tessera/config/hf_config_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/config/load.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

// The model that a folder with this config.json alone describes.
ModelConfig read_back(const std::string& json) {
  const test::TempDir folder;
  std::ofstream(folder / "config.json") << json;
  const ConfigResult result = load_config_text(
      "checkpoint: {load_path: '" + folder.path().string() + "'}\n", "x.yaml", ".", {});
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config.model;
}

ModelConfig from_yaml(const std::string& model) {
  const ConfigResult result = load_config_text("model: {" + model + "}\n", "x.yaml", ".", {});
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config.model;
}

const std::string kSizes =
    "hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 24, vocab_size: 250, rms_norm_eps: 3.0e-06, rope_theta: "
    "12345.5, max_position_embeddings: 77, initializer_range: 0.02, pad_token_id: 0, "
    "attention_bias: true, hidden_dropout: 0.0, ";

class HfConfigWriter : public testing::TestWithParam<std::string> {};

TEST_P(HfConfigWriter, IsReadBack) {
  ModelConfig model = from_yaml(GetParam());
  const std::string json = hf_config_json(model, DType::kBFloat16);
  EXPECT_THAT(json, testing::HasSubstr("\"dtype\": \"bfloat16\""));
  ModelConfig read = read_back(json);
  // What concerns training alone is not in the file.
  read.pad_token_id = model.pad_token_id;
  read.seq_length = model.seq_length;
  read.hidden_dropout = model.hidden_dropout;
  read.moe_aux_loss_coeff = model.moe_aux_loss_coeff;
  read.max_window_layers = model.max_window_layers;  // written, and means nothing without a window
  read.head_dim = model.has_latent_attention() ? model.head_dim : read.head_dim;
  EXPECT_EQ(hf_config_json(read, DType::kBFloat16), json);
  EXPECT_TRUE(read == model) << json;
}

INSTANTIATE_TEST_SUITE_P(
    Families, HfConfigWriter,
    testing::Values(
        kSizes + "model_type: llama, mlp_bias: true",
        kSizes +
            "model_type: llama, rope_scaling: {rope_type: llama3, factor: 8.0, "
            "low_freq_factor: 1.5, high_freq_factor: 5.0, original_max_position_embeddings: 32}",
        kSizes + "model_type: qwen3, tie_word_embeddings: true, rope_scaling: {rope_type: yarn, "
                 "factor: 4.0, original_max_position_embeddings: 64, beta_fast: 30.0, "
                 "attention_factor: 1.2}",
        kSizes + "model_type: qwen3, rope_scaling: {rope_type: linear, factor: 2.0}",
        kSizes + "model_type: qwen3_moe, num_experts: 8, num_experts_per_tok: 2, "
                 "moe_intermediate_size: 32, norm_topk_prob: true, decoder_sparse_step: 2, "
                 "mlp_only_layers: [0]",
        "model_type: deepseek_v3, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4, "
        "num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 250, q_lora_rank: 24, "
        "kv_lora_rank: 16, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16, "
        "n_routed_experts: 8, num_experts_per_tok: 2, n_shared_experts: 1, n_group: 4, "
        "topk_group: 2, moe_intermediate_size: 32, first_k_dense_replace: 1, qk_layernorm: true, "
        "routed_scaling_factor: 1.5"),
    [](const auto& info) { return std::to_string(info.index); });

TEST(HfConfigWriter, WhatSaysNothingAboutTheModelStaysAsItWas) {
  const ModelConfig model = from_yaml(kSizes + "model_type: llama");
  const auto written = [&](const std::string& published) {
    return nlohmann::json::parse(hf_config_json(model, DType::kBFloat16, published));
  };
  const std::string published =
      R"({"model_type": "llama", "use_cache": false, "eos_token_id": [2, 5],
      "hidden_size": 1024, "torch_dtype": "float32", "dtype": "float32", "_name_or_path": "x",
      "transformers_version": "4.1", "rope_scaling": {"factor": 8},
      "quantization_config": {"quant_method": "mxfp4"}})";
  const auto json = written(published);
  EXPECT_EQ(json.at("use_cache"), false);
  EXPECT_EQ(json.at("eos_token_id"), nlohmann::json({2, 5}));
  EXPECT_EQ(json.at("hidden_size"), 64);
  EXPECT_EQ(json.at("dtype"), "bfloat16");
  EXPECT_TRUE(json.at("rope_scaling").is_null());
  for (const char* key : {"quantization_config", "torch_dtype", "_name_or_path"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  EXPECT_EQ(written(R"({"model_type": "Yi", "use_cache": false})").at("use_cache"), false);
  EXPECT_EQ(written(R"({"model_type": "qwen3", "use_cache": false})").at("use_cache"), true);
  EXPECT_EQ(written("no json").at("use_cache"), true);
}

}  // namespace
}  // namespace tessera
