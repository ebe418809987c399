// Every family's weights leave as they came: the same tensors under the same names, stacked as the
// published files have them, whatever the layout; config.json says the same.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "tessera/checkpoint/hf_export.h"
#include "tessera/checkpoint/safetensors.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

const Layout kOne{"one", 1, {local_batch(2)}};
const Layout kMixed{
    "mixed",
    8,
    {"parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_layers_per_stage=auto",
     tp(2), shard(2), local_batch(1)}};
const Layout kExperts{"ep", 2, {shard(2), "parallelism.expert_parallel=2", local_batch(2)}};

class FamilyExport : public testing::TestWithParam<std::string> {};

TEST_P(FamilyExport, GivesBackThePublishedFolder) {
  const std::string name = GetParam();
  const fs::path published = case_path(name) / "model";
  const bool has_experts = load_case(name, {}, 1).model.is_moe();
  for (const Layout& layout : {kOne, has_experts ? kExperts : kMixed}) {
    const TempDir folder;
    // A rate of 0 leaves the weights as they were read.
    const Config config = load_case(
        name,
        layout.set +
            std::vector<std::string>{"training.steps=1", "lr_scheduler.type=ConstantWarmUpLR",
                                     "lr_scheduler.learning_rate=0", "optimizer.weight_decay=0",
                                     "checkpoint.enable_save=true",
                                     "checkpoint.save_path='" + (folder / "saved").string() + "'"},
        layout.ranks);
    run_until(config, layout.ranks, 1);
    HfExportOptions options;
    options.checkpoint = folder / "saved";
    options.output = folder / "model";
    export_to_hf(options);

    const SafetensorsFile ours(folder / "model" / "model.safetensors");
    const SafetensorsFile theirs(published / "model.safetensors");
    EXPECT_EQ(ours.entries().size(), theirs.entries().size()) << layout.name;
    for (const auto& [tensor, entry] : theirs.entries()) {
      EXPECT_TRUE(at::equal(ours.read(tensor), theirs.read(tensor).to(at::kDouble)))
          << layout.name << " " << tensor;
    }
    const auto written = read_json(folder / "model" / "config.json");
    const auto original = read_json(published / "config.json");
    for (const auto& [key, value] : written.items()) {
      // What a run decides.
      static const std::set<std::string> kOthers = {"torch_dtype", "dtype"};
      if (kOthers.contains(key)) continue;
      if (!original.contains(key)) continue;
      EXPECT_EQ(value, original.at(key)) << layout.name << " " << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyExport,
                         testing::Values("mistral_window64", "mixtral_64", "phi3_64",
                                         "phi3_longrope64", "olmo2_64", "olmo3_64", "gemma2_64",
                                         "gemma3_64", "glm4_64", "glm4_moe64", "gpt_oss64",
                                         "qwen2_64"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera::test
