// A published DeepSeek-V3 that is trained without its layers of multi-token prediction: the numbers
// are those of the model that never had them.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/checkpoint/element_scalar.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/layout/model_spec.h"
#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/near_rel.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCase = "deepseek_v3_64";

// The published folder of the case, whose config.json names one layer of multi-token prediction;
// its tensors are there or not.
void publish(const fs::path& folder, bool with_layer) {
  fs::create_directories(folder);
  auto config = read_json(case_path(kCase) / "model" / "config.json");
  config["num_nextn_predict_layers"] = 1;
  std::ofstream(folder / "config.json") << config;
  const SafetensorsFile source(case_path(kCase) / "model" / "model.safetensors");
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, entry] : source.entries()) entries.push_back(entry);
  const size_t published = entries.size();
  if (with_layer) {
    ModelConfig model = load_case(kCase, {}, 1).model;
    const std::string layer = layer_prefix(model.num_hidden_layers);
    model.num_nextn_predict_layers = 1;
    for (const ParamSpec& spec : model_spec(model)) {
      if (!spec.name.starts_with(layer)) continue;
      SafetensorsEntry entry;
      entry.name = spec.name;
      entry.shape = spec.shape;
      entries.push_back(std::move(entry));
    }
  }
  SafetensorsWriter writer(folder / "model.safetensors", entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    writer.append(i < published ? source.read(entries[i].name)
                                : at::full(entries[i].shape, 0.01, at::kFloat));
  }
  writer.close();
}

std::vector<std::string> sets_for(const fs::path& folder) {
  return {"checkpoint.load_path='" + folder.string() + "'", "model.num_nextn_predict_layers=0"};
}

class LeftOutLayers : public testing::TestWithParam<bool> {};

TEST_P(LeftOutLayers, TheRestTrainsAsIfTheyHadNeverBeen) {
  const TempDir folder;
  publish(folder / "model", GetParam());
  const auto run = train(load_case(kCase, sets_for(folder / "model"), 1), 1, 2);
  const auto expected = read_json_lines(case_path(kCase) / "expected.jsonl");
  for (size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR_REL(run->steps.at(step).loss, expected.at(step).at("loss").get<double>(), 1e-9);
    EXPECT_NEAR_REL(run->steps.at(step).grad_norm, expected.at(step).at("grad_norm").get<double>(),
                    1e-9);
  }
}

TEST_P(LeftOutLayers, OneLineSaysWhatIsNotUsed) {
  const TempDir folder;
  publish(folder / "model", GetParam());
  for (const char* command : {"plan", "train"}) {
    std::vector<std::string> arguments = {
        command, "--config", (case_path(kCase) / "config.yaml").string(), "--ranks", "1"};
    if (command == std::string("train")) arguments.emplace_back("--dry-run");
    for (const std::string& set : sets_for(folder / "model")) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    const ProgramResult result = run_program("tessera", arguments);
    EXPECT_EQ(result.code, 0) << result.errors;
    if (GetParam()) {
      EXPECT_THAT(result.errors,
                  testing::ContainsRegex("model: [0-9]+ tensors of multi-token prediction "
                                         "\\(model.layers.[0-9]+\\) are not used"));
    } else {
      EXPECT_THAT(result.errors, testing::Not(testing::HasSubstr("multi-token")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TensorsThereOrNot, LeftOutLayers, testing::Bool());

}  // namespace
}  // namespace tessera::test
