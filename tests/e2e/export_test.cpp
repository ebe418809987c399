// A checkpoint as a Hugging Face folder: the bytes do not depend on the layout, and the model is
// the one that was trained.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/checkpoint/hf_export.h"
#include "tessera/checkpoint/hf_load.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/near_rel.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Sets = std::vector<std::string>;

Sets pp(int64_t stages, int64_t chunks, Sets more) {
  more.push_back("parallelism.pipeline_parallel=" + std::to_string(stages));
  more.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks));
  more.push_back("parallelism.pipeline_parallel_layers_per_stage=auto");
  return more;
}
Sets ep(int64_t degree, Sets more) {
  more.push_back("parallelism.expert_parallel=" + std::to_string(degree));
  return more;
}

// Trains `steps` updates (all, if 0) and leaves a checkpoint in `root`.
void train_and_save(const std::string& name, const Layout& layout, int64_t steps,
                    const fs::path& root, const Sets& more = {}) {
  Sets set = layout.set;
  set.insert(set.end(), more.begin(), more.end());
  set.emplace_back("checkpoint.enable_save=true");
  set.push_back("checkpoint.save_path='" + root.string() + "'");
  const Config config = load_case(name, set, layout.ranks);
  TrainerOptions options;
  options.source = open_training_data(config);
  options.stop_after = steps;
  run_ranks(static_cast<int>(layout.ranks),
            [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
}

HfExportOptions to(const fs::path& checkpoint, const fs::path& output,
                   std::optional<DType> dtype = std::nullopt) {
  HfExportOptions options;
  options.checkpoint = checkpoint;
  options.output = output;
  options.dtype = dtype;
  return options;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Case {
  std::string name;
  std::vector<Layout> layouts;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class ExportedBytes : public testing::TestWithParam<Case> {};

// A step with the rate 0 changes no weight, whatever the layout: all of them have the published
// weights, and save them in their own way.
TEST_P(ExportedBytes, AreThoseOfTheModelThatWasReadInEveryLayout) {
  const TempDir folder;
  const fs::path source = case_path(GetParam().name) / "model";
  for (const Layout& layout : GetParam().layouts) {
    const fs::path root = folder / layout.name;
    train_and_save(GetParam().name, layout, 1, root / "saved",
                   {"lr_scheduler.type=LinearWithWarmUpLR", "lr_scheduler.warmup_steps=5",
                    "lr_scheduler.warmup_lr_init=0.0"});
    export_to_hf(to(root / "saved", root / "model", DType::kFloat32));
    const fs::path first = folder / GetParam().layouts[0].name / "model";
    for (const char* file : {"model.safetensors", "config.json"}) {
      EXPECT_EQ(bytes_of(root / "model" / file), bytes_of(first / file)) << layout.name << file;
    }
  }
  const SafetensorsFile exported(folder / GetParam().layouts[0].name / "model" /
                                 "model.safetensors");
  const Config config = load_case(GetParam().name, {}, 1);
  const std::vector<ParamSpec> model = model_spec(config.model);
  const HfWeights published(source, model);
  size_t weights = 0;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    ++weights;
    const Box whole{std::vector<int64_t>(spec.shape.size(), 0), spec.shape};
    EXPECT_TRUE(
        at::equal(exported.read(spec.name), published.read_box(spec.name, whole, at::kFloat)))
        << spec.name;
  }
  EXPECT_EQ(exported.entries().size(), weights);  // each expert once, no tied head
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ExportedBytes,
    testing::Values(Case{"llama_sgd64",
                         {{"one", 1, {local_batch(2)}},
                          {"tp4_copies", 4, {tp(4), local_batch(2)}},
                          {"shard2_replicate2", 4, {shard(2), local_batch(2)}},
                          {"pp2v2_tp2_shard2", 8, pp(2, 2, {tp(2), shard(2), local_batch(1)})}}},
                    Case{"qwen3_tied64",
                         {{"one", 1, {local_batch(2)}},
                          {"pp2_tp2", 4, pp(2, 1, {tp(2), local_batch(2)})}}},
                    Case{"qwen3_moe64",
                         {{"one", 1, {local_batch(2)}},
                          {"ep4", 4, ep(4, {shard(-1), local_batch(2)})},
                          {"tp2_ep2", 4, ep(2, {tp(2), shard(-1), local_batch(2)})}}},
                    Case{"deepseek_v3_64",
                         {{"one", 1, {local_batch(2)}},
                          {"pp2_ep2", 4, ep(2, pp(2, 1, {shard(-1), local_batch(2)}))}}}),
    [](const auto& info) { return info.param.name; });

TEST(Export, HoldsWhatOthersTrained) {
  const TempDir folder;
  train_and_save("llama_adamw64", {"", 4, {tp(2), shard(2), local_batch(1)}}, 0, folder / "saved");
  export_to_hf(to(folder / "saved", folder / "model"));
  const SafetensorsFile file(folder / "model" / "model.safetensors");
  const auto expected = read_json(case_path("llama_adamw64") / "expected_final.json");
  EXPECT_EQ(file.entries().size(), expected.size());
  for (const auto& [name, numbers] : expected.items()) {
    const at::Tensor value = file.read(name);
    EXPECT_EQ(value.scalar_type(), at::kDouble);
    const double norm = numbers.at("norm");
    EXPECT_NEAR_REL(value.norm().item<double>(), norm, 1e-9) << name;
    EXPECT_NEAR(value.sum().item<double>(), numbers.at("sum").get<double>(),
                1e-9 * norm * std::sqrt(static_cast<double>(value.numel())))
        << name;
  }
  const auto config = read_json(folder / "model" / "config.json");
  EXPECT_EQ(config.at("dtype"), "float64");
  EXPECT_EQ(config.at("architectures").at(0), "LlamaForCausalLM");
}

TEST(Export, IsReadAsTheSameModel) {
  const TempDir folder;
  const Layout layout{"", 4, pp(2, 1, {tp(2), local_batch(2)})};
  train_and_save("qwen3_tied64", layout, 1, folder / "saved",
                 {"lr_scheduler.type=LinearWithWarmUpLR", "lr_scheduler.warmup_steps=5",
                  "lr_scheduler.warmup_lr_init=0.0"});
  export_to_hf(to(folder / "saved", folder / "model"));
  EXPECT_TRUE(read_json(folder / "model" / "config.json").at("tie_word_embeddings").get<bool>());
  const Config config = load_case(
      "qwen3_tied64",
      {tp(2), local_batch(2), "checkpoint.load_path='" + (folder / "model").string() + "'"}, 2);
  const auto run = train(config, 2, 1);
  const auto expected = read_json_lines(case_path("qwen3_tied64") / "expected.jsonl");
  EXPECT_NEAR_REL(run->steps.at(0).loss, expected.at(0).at("loss").get<double>(), 1e-9);
  EXPECT_NEAR_REL(run->steps.at(0).grad_norm, expected.at(0).at("grad_norm").get<double>(), 1e-9);
}

TEST(Export, AVocabularyThatNothingDividesIsNotPadded) {
  const TempDir folder;
  const Layout layout{
      "", 4, {tp(4), local_batch(2), "model.vocab_size=259", "checkpoint.load_path=''"}};
  train_and_save("llama_sgd64", layout, 1, folder / "saved");
  export_to_hf(to(folder / "saved", folder / "model"));
  const SafetensorsFile file(folder / "model" / "model.safetensors");
  EXPECT_EQ(file.entry("model.embed_tokens.weight").shape, (std::vector<int64_t>{259, 64}));
  EXPECT_EQ(file.entry("lm_head.weight").shape, (std::vector<int64_t>{259, 64}));
  EXPECT_EQ(read_json(folder / "model" / "config.json").at("vocab_size"), 259);
}

TEST(Export, ShardsIndexDtypeAndTokenizer) {
  const TempDir folder;
  fs::copy(case_path("llama_sgd64") / "model", folder / "source", fs::copy_options::recursive);
  std::ofstream(folder / "source" / "tokenizer.json") << "{\"a\": 1}";
  train_and_save("llama_sgd64", {"", 1, {local_batch(2)}}, 1, folder / "saved",
                 {"checkpoint.load_path='" + (folder / "source").string() + "'"});
  fs::remove_all(folder / "source");  // the checkpoint holds what it needs
  HfExportOptions options = to(folder / "saved", folder / "model", DType::kBFloat16);
  options.shard_bytes = 100'000;
  const std::string said = export_to_hf(options);
  EXPECT_THAT(said, HasSubstr("1 tokenizer files"));
  EXPECT_EQ(bytes_of(folder / "model" / "tokenizer.json"), "{\"a\": 1}");
  const auto index = read_json(folder / "model" / "model.safetensors.index.json");
  const auto files = published_weight_files(folder / "model");
  EXPECT_GT(files.size(), 2u);
  uint64_t total = 0;
  for (const fs::path& file : files) {
    EXPECT_LE(fs::file_size(file), 110'000u);
    const SafetensorsFile shard(file);
    for (const auto& [name, entry] : shard.entries()) {
      EXPECT_EQ(entry.dtype, ElementType::kBF16);
      EXPECT_EQ(index.at("weight_map").at(name), file.filename().string());
      total += entry.bytes();
    }
  }
  EXPECT_EQ(index.at("metadata").at("total_size"), total);
  EXPECT_THROW(export_to_hf(options), ConfigError);  // is there already
  const Config config = load_case("llama_sgd64", {}, 1);
  EXPECT_NO_THROW(HfWeights(folder / "model", model_spec(config.model)));
}

TEST(Export, WhatCannotBeExportedIsSaid) {
  const TempDir folder;
  train_and_save("llama_sgd64", {"", 1, {local_batch(2)}}, 1, folder / "saved");
  HfExportOptions options = to(folder / "saved", folder / "model");
  options.tokenizer = folder / "nowhere";
  EXPECT_THROW(export_to_hf(options), ConfigError);
  EXPECT_FALSE(fs::exists(folder / "model"));
  try {
    export_to_hf(to(case_path("llama_sgd64") / "model", folder / "model"));
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a Hugging Face folder already"));
  }
}

TEST(Export, FoldersMayEndInASlash) {
  const TempDir folder;
  train_and_save("llama_sgd64", {"", 1, {local_batch(2)}}, 1, folder / "saved");
  fs::create_directories(folder / "there");  // empty: taken
  for (const char* output : {"there/", "new/deep/"}) {
    export_to_hf(to(folder / "saved/", folder / output));
    EXPECT_TRUE(fs::exists(folder / output / "model.safetensors")) << output;
  }
  std::ofstream(folder / "file").flush();
  EXPECT_THROW(export_to_hf(to(folder / "saved", folder / "file")), ConfigError);
}

TEST(Export, ADamagedCheckpointLeavesNothing) {
  const TempDir folder;
  train_and_save("llama_sgd64", {"", 1, {local_batch(2)}}, 1, folder / "saved");
  const fs::path damaged =
      folder / "saved" / "iteration_00000001" / "checkpoint-model-0000000-0000001.safetensors";
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(damaged)) - 9);
  file.put('\x55');
  file.close();
  try {
    export_to_hf(to(folder / "saved", folder / "model"));
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr(damaged.string() + ": damaged"));
  }
  EXPECT_FALSE(fs::exists(folder / "model"));
  EXPECT_FALSE(fs::exists(folder / "model.writing"));
}

}  // namespace
}  // namespace tessera::test
