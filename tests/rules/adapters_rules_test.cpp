// Rules of lora_config, and of the paths that go with it.

#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using Sets = std::vector<std::string>;

const char* const kTarget = "lora_config.target_modules";

std::string target(const std::string& pattern) {
  return std::string(kTarget) + "='" + pattern + "'";
}

TEST(AdapterRules, TargetsAreNeededAndFound) {
  EXPECT_THAT(check_base(1, {"lora_config.lora_rank=4"}), HasError(kTarget, "is needed"));
  EXPECT_THAT(check_base(1, {target("q_proj$")}), HasNoErrors());
  EXPECT_THAT(check_base(1, {target("linear_fc1")}), HasNoErrors());
  EXPECT_THAT(check_base(1, {target("query_key_value")}),
              HasError(kTarget, "model.layers.0.self_attn.q_proj"));
  EXPECT_THAT(check_base(1, {target("proj(")}), HasError(kTarget, "proj("));
  EXPECT_THAT(check_base(1, {target("layers"), "lora_config.exclude_layers='layers'"}),
              HasError(kTarget, "is found in no path"));
}

TEST(AdapterRules, WhatIsNotBuiltIsNamed) {
  EXPECT_THAT(check_base(1, {target("q_proj|embed_tokens")}), HasError(kTarget, "the embedding"));
  EXPECT_THAT(check_base(1, moe({target("experts"), "lora_config.lora_dropout=0.1"})),
              HasError("lora_config.lora_dropout", "routed experts"));
  EXPECT_THAT(check_base(1, moe({target("experts.0.up_proj")})), HasError(kTarget, "all or none"));
}

TEST(AdapterRules, ValuesAreInTheirRanges) {
  for (const auto& [set, says] : {std::pair{"lora_config.lora_rank=0", "at least 1"},
                                  std::pair{"lora_config.lora_alpha=0", "at least 1"},
                                  std::pair{"lora_config.lora_dropout=1", "below 1"},
                                  std::pair{"lora_config.lora_a_std=-1", "at least 0"}}) {
    const std::string field = std::string(set).substr(0, std::string(set).find('='));
    EXPECT_THAT(check_base(1, {target("q_proj"), set}), HasError(field, says)) << set;
  }
}

TEST(AdapterRules, ABaseIsNeededWhereAdaptersAreAlone) {
  EXPECT_THAT(check_base(1, {target("q_proj"), "checkpoint.save_trainable_only=true"}),
              HasError("checkpoint.save_trainable_only", "checkpoint.base_load_path"));
}

}  // namespace
}  // namespace tessera
