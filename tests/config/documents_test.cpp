// The reference runs, and the YAML blocks of the specification's page, at their world sizes.

#include <fstream>
#include <sstream>

#include "tessera/rules/presence.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;

std::string shared(const std::string& path) {
  return std::string(TESSERA_SOURCE_DIR) + "/../shared/" + path;
}

TEST(Documents, ReferenceRunsReadAndValidate) {
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/tests/cases")) {
    const std::string file = (entry.path() / "config.yaml").string();
    if (!std::filesystem::exists(file)) continue;
    ++runs;
    const ConfigResult result = load_config(file, {});
    EXPECT_TRUE(result.issues.empty()) << format_issues(result.issues);
    EXPECT_TRUE(check_presence(result.config, result.provenance).empty());
    const std::string yaml = to_yaml(result.config);
    EXPECT_TRUE(load_config_text(yaml, "resolved", "/", {}).config == result.config) << file;
    if (result.config.model.model_type.empty()) continue;  // data alone
    const auto issues = validate(result.config, result.provenance, 1);
    EXPECT_THAT(issues, HasNoErrors()) << file;
    EXPECT_EQ(count(issues, Severity::kWarning), 0) << format_issues(issues);
  }
  EXPECT_GE(runs, 11);
}

struct Block {
  std::string heading;
  std::string yaml;
};

// Blocks of the page that begin with "parallelism:", with the last heading before each.
std::vector<Block> parallelism_blocks(std::istream& page) {
  std::vector<Block> blocks;
  std::string heading;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "parallelism:") {
      blocks.push_back({heading, "parallelism:\n"});
      inside = true;
    } else if (inside && (line.empty() || line.starts_with(" "))) {
      blocks.back().yaml += line + "\n";
    } else {
      inside = false;
      if (!line.empty()) heading = line;
    }
  }
  return blocks;
}

TEST(Documents, BlocksOfThePageValidate) {
  std::ifstream page(shared("seed/parallel_training.zh.md"));
  if (!page) return;
  // In the page's order: overview; 8 and 16 ranks of data parallel; tensor; three of context;
  // two of pipeline; two of experts.
  const struct {
    int64_t world;
    std::vector<std::string> sets;
  } expected[] = {
      {8, {}},
      {8, {}},
      {16, {}},
      {8, {}},
      {8, {}},
      {8, {}},
      {8, {}},
      {8, {"model.num_hidden_layers=8"}},
      {8, {"model.num_hidden_layers=10"}},
      {8, moe()},
      {16, moe()},
  };
  const std::vector<Block> blocks = parallelism_blocks(page);
  ASSERT_EQ(blocks.size(), std::size(expected));
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<std::string> sets = expected[i].sets;
    sets.push_back("training.global_batch_size=16");
    const Checked checked =
        check_text(std::string(kBase) + blocks[i].yaml, expected[i].world, sets);
    EXPECT_THAT(checked.issues, HasNoErrors()) << blocks[i].heading << "\n" << blocks[i].yaml;
    EXPECT_EQ(count(checked.issues, Severity::kWarning), 0)
        << blocks[i].heading << format_issues(checked.issues);
  }
}

}  // namespace
}  // namespace tessera
