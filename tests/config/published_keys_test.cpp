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

}  // namespace
}  // namespace tessera
