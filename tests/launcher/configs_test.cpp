// The files of configs/ are valid at the number of ranks that they name.

#include <gtest/gtest.h>

#include <regex>

#include "temporary_folder.h"
#include "tessera/launcher/preflight.h"

namespace tessera {
namespace {

std::vector<std::string> config_files() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().stem());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ExampleConfigs : public testing::TestWithParam<std::string> {};

TEST_P(ExampleConfigs, IsValidAndSaysNothing) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/configs/" + GetParam() + ".yaml";
  const std::string text = read_file(path);
  std::smatch ranks;
  ASSERT_TRUE(std::regex_search(text, ranks, std::regex("\n# Ranks: ([0-9]+)\n")))
      << "the header names the number of ranks";
  PreflightOptions options;
  options.world = std::stoi(ranks[1]);
  options.to_run = false;
  const Preflight checked = preflight(path, {}, options);
  for (const Issue& issue : checked.issues) {
    // Made by `make train` and `make finetune`.
    if (issue.field.find("data_path") != std::string::npos) continue;
    if (issue.field == "checkpoint.base_load_path") continue;
    ADD_FAILURE() << issue.field << " = " << issue.value << ": " << issue.rule;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExampleConfigs, testing::ValuesIn(config_files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
