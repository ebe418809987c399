// Every key of every family's config.json, as transformers 5.24 writes them
// (tests/cases/published_configs.json: the defaults of its classes), is known; others are refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/config/family.h"
#include "tessera/config/hf_config.h"
#include "tests/support/case_path.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json published() {
  return Json::parse(std::ifstream(test::source_dir() / "tests/cases/published_configs.json"));
}

std::string problems_of(const Json& config) {
  const test::TempDir folder;
  std::ofstream(folder / "config.json") << config.dump(1);
  std::vector<Issue> issues;
  read_hf_config(folder.path().string(), builtin_families(), "", issues);
  return format_issues(issues);
}

TEST(PublishedKeys, OfEveryFamilyAreKnown) {
  const Json all = published();
  EXPECT_EQ(all.size(), 15);
  for (const auto& [type, config] : all.items()) {
    EXPECT_TRUE(builtin_families().find(type)) << type;
    EXPECT_EQ(problems_of(config), "") << type;
  }
}

TEST(PublishedKeys, OthersAreRefusedByName) {
  const Json all = published();
  for (const auto& [type, config] : all.items()) {
    Json more = config;
    more["mixture_of_depths"] = 2;
    EXPECT_THAT(problems_of(more), HasSubstr("mixture_of_depths = 2: is no key of " + type))
        << type;
  }
}

TEST(PublishedKeys, ValuesThatAreNotBuiltAreRefused) {
  Json config = published().at("gemma2");
  config["use_bidirectional_attention"] = true;
  EXPECT_THAT(problems_of(config), HasSubstr("attention is causal"));
  config = published().at("mixtral");
  config["router_jitter_noise"] = 0.1;
  EXPECT_THAT(problems_of(config), HasSubstr("routers have no noise"));
}

Json small_llama(const std::string& type) {
  return {{"model_type", type},
          {"hidden_size", 64},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"num_hidden_layers", 3},
          {"vocab_size", 256},
          {"intermediate_size", 128},
          {"tie_word_embeddings", true}};
}

TEST(AlikeModels, AreReadAsLlama) {
  const auto with = [](const std::string& type, Json more) {
    Json config = small_llama(type);
    if (!more.is_null()) config.update(more);
    return config;
  };
  for (const Json& config :
       {with("Yi", {}), with("smollm", {}), with("xverse", {}),
        with("iquestcoder", {{"use_sliding_window", false}, {"clip_qkv", nullptr}}),
        with("smollm3", {{"no_rope_layers", {1, 1, 1}},
                         {"no_rope_layer_interval", 4},
                         {"use_sliding_window", false}}),
        with("internlm3", {{"qkv_bias", false}, {"bias", false}})}) {
    const test::TempDir folder;
    std::ofstream(folder / "config.json") << config.dump(1);
    std::vector<Issue> issues;
    const auto hf = read_hf_config(folder.path().string(), builtin_families(), "", issues);
    EXPECT_EQ(format_issues(issues), "") << config;
    ASSERT_TRUE(hf && hf->family) << config;
    EXPECT_EQ(hf->model_type, "llama");
    EXPECT_EQ(hf->family->model_type, "llama");
  }
}

TEST(AlikeModels, AnotherArithmeticIsRefusedByName) {
  Json config = small_llama("smollm3");
  EXPECT_THAT(problems_of(config), HasSubstr("no_rope_layers"));
  config["no_rope_layers"] = {1, 0, 1};
  EXPECT_THAT(problems_of(config), HasSubstr("no_rope_layers"));
  EXPECT_THAT(problems_of(config), HasSubstr("a layer without rotary embedding"));
  config = small_llama("internlm3");
  config["qkv_bias"] = true;
  EXPECT_THAT(problems_of(config), HasSubstr("qkv_bias"));
  config.erase("qkv_bias");
  config.erase("head_dim");
  EXPECT_THAT(problems_of(config), HasSubstr("must be there: internlm3 is read as llama"));
  config = small_llama("Yi");
  config["mixture_of_depths"] = 2;
  EXPECT_THAT(problems_of(config), HasSubstr("mixture_of_depths"));
}

}  // namespace
}  // namespace tessera
