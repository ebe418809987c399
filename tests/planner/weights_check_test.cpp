// What plan and train say of the folder that a run is to start from.

#include "tessera/planner/weights_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/config/hf_config_writer.h"
#include "tessera/rules/validate.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/manifest.h"
#include "tests/config/config_testing.h"
#include "tests/support/published_folder.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_config::kBase;

// kBase without its model, which comes from the folder.
const std::string kRun = std::string(kBase).substr(0, std::string(kBase).find("model:"));
const std::string kModel = std::string(kBase).substr(kRun.size());

struct Found {
  std::vector<Issue> issues;  // of the folder; absent ones too
  std::vector<Issue> others;
  bool of_checkpoint = false;
};

Found look(const std::string& path, const std::vector<std::string>& more = {},
           const std::string& file = kRun) {
  std::vector<std::string> sets = {"checkpoint.load_path='" + path + "'",
                                   "context.device_target=CPU", "model.compute_dtype=float32"};
  sets.insert(sets.end(), more.begin(), more.end());
  const ConfigResult loaded = load_config_text(file, "x.yaml", "/nonexistent", sets);
  Found found;
  found.others = validate(loaded, 1);
  WeightsCheck check = check_weights(loaded.config, loaded.provenance, !has_errors(found.others));
  found.issues = std::move(check.issues);
  for (Issue& issue : check.absent) found.issues.push_back(std::move(issue));
  found.of_checkpoint = check.of_checkpoint;
  return found;
}

std::string said(const fs::path& path, const std::vector<std::string>& more = {},
                 const std::string& file = kRun) {
  return format_issues(look(path.string(), more, file).issues);
}

ModelConfig model_of(const std::vector<std::string>& sets) {
  return load_config_text(kBase, "x", "/nonexistent", sets).config.model;
}

void publish(const fs::path& folder, const ModelConfig& model,
             const std::vector<SafetensorsEntry>& tensors) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << hf_config_json(model, DType::kBFloat16);
  test::write_weight_file(folder / "model.safetensors", tensors);
}

void publish(const fs::path& folder, const ModelConfig& model = model_of({})) {
  publish(folder, model, test::tensors_of(model_spec(model)));
}

void touch(const fs::path& path, const std::string& text = "x") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(WeightsCheck, AModelThatFitsIsSilent) {
  const test::TempDir folder;
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{},
        testing_config::moe(),
        testing_config::deepseek({"model.qk_layernorm=true"}),
        {"model.model_type=qwen2", "model.attention_bias=true"}}) {
    fs::remove_all(folder / "model");
    publish(folder / "model", model_of(sets));
    EXPECT_EQ(said(folder / "model"), "") << testing::PrintToString(sets);
    EXPECT_FALSE(has_errors(look(folder / "model").others));
  }
}

TEST(WeightsCheck, AnAbsentFolderIsNamed) {
  const std::string text = said("/no/such/model");
  EXPECT_THAT(text, HasSubstr("checkpoint.load_path = /no/such/model: no such folder"));
  EXPECT_THAT(text, HasSubstr("these are defaults: model.vocab_size, hidden_size, "));
  EXPECT_THAT(said("/no/such/model", {}, kBase), testing::Not(HasSubstr("defaults")));
}

TEST(WeightsCheck, TheRootOfAHubsCacheNamesItsSnapshot) {
  const test::TempDir cache;
  const fs::path root = cache / "models--org--name";
  publish(root / "snapshots" / "0123abc");
  EXPECT_THAT(said(root),
              HasSubstr("point at a snapshot: " + (root / "snapshots/0123abc").string()));
  touch(root / "refs" / "main", "0123abc");
  for (const fs::path& path : {root, root / "snapshots"}) {
    EXPECT_THAT(said(path), HasSubstr("is the cache of a hub around the model; point at its "
                                      "snapshot: " +
                                      (root / "snapshots/0123abc").string()));
  }
  EXPECT_THAT(said(cache.path()), HasSubstr("models below it, such as models--org--name"));
  EXPECT_EQ(said(root / "snapshots" / "0123abc"), "");
  fs::remove_all(root / "snapshots" / "0123abc");
  EXPECT_THAT(said(root), HasSubstr("none of its snapshots holds weights"));
}

TEST(WeightsCheck, WhatIsNoModelIsCalledWhatItIs) {
  const struct {
    std::vector<const char*> files;
    const char* says;
  } cases[] = {
      {{}, "is empty"},
      {{"notes.txt"}, "holds no checkpoint and no Hugging Face weights"},
      {{"consolidated.00.pth", "params.json"}, "pickled PyTorch weights (consolidated.00.pth)"},
      {{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"}, "convert first"},
      {{"pytorch_model.bin", "config.json"}, "pickled PyTorch weights (pytorch_model.bin)"},
      {{"model-q4.gguf"}, "weights for llama.cpp (model-q4.gguf)"},
      {{"rank_0/x.ckpt", "y.ckpt"}, "a checkpoint of another program (y.ckpt)"},
      {{"adapter_config.json", "adapter_model.safetensors"}, "holds adapters"},
      {{"model-00001-of-00002.safetensors"},
       "model.safetensors.index.json, which names the shards"},
      {{"consolidated.safetensors"}, "but neither model.safetensors nor"},
      {{"x.incomplete"}, "a download that is not complete (x.incomplete)"},
  };
  for (const auto& c : cases) {
    const test::TempDir folder;
    for (const char* file : c.files) touch(folder / file);
    EXPECT_THAT(said(folder.path(), {}, kBase), HasSubstr(c.says));
    EXPECT_THAT(said(folder.path(), {}, kBase), HasSubstr("checkpoint.load_path = "));
  }
  const test::TempDir folder;
  publish(folder / "below");
  EXPECT_THAT(said(folder.path(), {}, kBase),
              HasSubstr("point at what is below it: " + (folder / "below").string()));
  EXPECT_THAT(said(folder / "below" / "model.safetensors", {}, kBase),
              HasSubstr("is a file; point at the folder of the model"));
}

TEST(WeightsCheck, MissingShardsAreNamed) {
  const test::TempDir folder;
  publish(folder.path());
  fs::rename(folder / "model.safetensors", folder / "a.safetensors");
  touch(folder / "model.safetensors.index.json",
        R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "c.safetensors"}})");
  EXPECT_THAT(
      said(folder.path()),
      HasSubstr("names 3 files of weights:\n  not there (2): b.safetensors, c.safetensors"));
  touch(folder / "model.safetensors.index.json", "{");
  EXPECT_THAT(said(folder.path()), HasSubstr("model.safetensors.index.json: "));
}

TEST(WeightsCheck, APointerOfGitLfsIsCalledThat) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n";
  const test::TempDir folder;
  publish(folder.path());
  std::ofstream(folder / "model.safetensors") << pointer;
  EXPECT_THAT(said(folder.path()), HasSubstr("model.safetensors: is a pointer of Git LFS"));
  fs::remove(folder / "model.safetensors");
  std::ofstream(folder / "model.safetensors.index.json") << pointer;
  EXPECT_THAT(said(folder.path()),
              HasSubstr("model.safetensors.index.json: is a pointer of Git LFS"));
}

TEST(WeightsCheck, NamesShapesAndTypesAreCompared) {
  const test::TempDir folder;
  const ModelConfig model = model_of({});
  std::vector<SafetensorsEntry> tensors = test::tensors_of(model_spec(model));
  std::erase_if(tensors, [](const auto& t) { return t.name == "model.norm.weight"; });
  tensors[0].shape[0] += 1;
  tensors[1].dtype = ElementType::kI8;
  tensors.back().name = "lm_head.extra";
  publish(folder.path(), model, tensors);
  const std::string text = said(folder.path());
  for (const char* part :
       {"the weights do not fit the model:", "missing (2): model.norm.weight, lm_head.weight",
        "not in the model (1): lm_head.extra",
        "model.embed_tokens.weight is [513, 64], the model has [512, 64]",
        "(1): model.layers.0."}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  fs::resize_file(folder / "model.safetensors", fs::file_size(folder / "model.safetensors") - 1);
  EXPECT_THAT(said(folder.path()), HasSubstr("cut short?"));
}

TEST(WeightsCheck, NoSizeIsADefault) {
  const test::TempDir folder;
  publish(folder.path());
  fs::remove(folder / "config.json");
  EXPECT_EQ(said(folder.path(), {}, kBase), "");
  EXPECT_THAT(said(folder.path(), {"model.model_type=llama"}),
              HasSubstr("neither a config.json there nor the file gives model.vocab_size, "
                        "hidden_size, num_hidden_layers, num_attention_heads, intermediate_size:"));
  std::ofstream(folder / "config.json")
      << R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "num_attention_heads": 8})";
  EXPECT_THAT(said(folder.path()), HasSubstr("gives model.num_hidden_layers, intermediate_size:"));
}

TEST(WeightsCheck, TheFamilyOfAFolderIsNamedSomewhere) {
  const test::TempDir folder;
  publish(folder.path());
  std::ofstream(folder / "config.json") << R"({"vocab_size": 512})";
  const std::string text = format_issues(look(folder.path()).others);
  EXPECT_THAT(text, HasSubstr("config.json:1: model.model_type: is not there"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

// DeepSeek-V3 as it is published, with a layer of multi-token prediction.
TEST(WeightsCheck, LayersThatAreNotUsedAreSaidInOneLine) {
  const auto sets = [](const char* layers) {
    return testing_config::deepseek({"model.qk_layernorm=true", "model.mtp_loss_factor=0.3",
                                     std::string("model.num_nextn_predict_layers=") + layers});
  };
  const test::TempDir folder;
  const ModelConfig with = model_of(sets("1")), without = model_of(sets("0"));
  publish(folder.path(), with);
  const auto left_out =
      test::tensors_of(model_spec(with)).size() - test::tensors_of(model_spec(without)).size();
  EXPECT_EQ(said(folder.path(), {"model.num_nextn_predict_layers=0"}),
            "x.yaml: note: " + folder.path().string() + ": " + std::to_string(left_out) +
                " tensors of multi-token prediction (model.layers.4) are not used: the model has "
                "no such layer\n");
  EXPECT_EQ(said(folder.path(), {"model.mtp_loss_factor=0.3"}), "");
  // Saved again by transformers: the layer is gone, config.json still has the number.
  publish(folder.path(), with, test::tensors_of(model_spec(without)));
  const Found found = look(folder.path(), {"model.num_nextn_predict_layers=0"});
  EXPECT_EQ(format_issues(found.issues), "");
  EXPECT_FALSE(has_errors(found.others)) << format_issues(found.others);
  EXPECT_THAT(said(folder.path(), {"model.mtp_loss_factor=0.3"}), HasSubstr("missing ("));
}

class Checkpoints : public testing::Test {
 protected:
  // A checkpoint without bytes: its manifest names one file that is there.
  void write(int64_t step, const ModelConfig& model, const std::string& optimizer = "SGD") {
    const fs::path folder = begin_iteration(root_.path(), step);
    Manifest manifest;
    manifest.position.step = step;
    manifest.position.effective_batch = 8;
    manifest.optimizer = optimizer;
    uint64_t offset = 0;
    for (const ParamSpec& spec : model_spec(model)) {
      if (!spec.tied_to.empty()) continue;
      const Box whole{std::vector<int64_t>(spec.shape.size(), 0), spec.shape};
      manifest.weights[spec.name] = {ElementType::kF32, spec.shape, {{0, offset, whole}}};
      offset += 4 * static_cast<uint64_t>(whole.numel());
    }
    manifest.files = {{"weights", offset, {}}};
    touch(folder / "weights");
    fs::resize_file(folder / "weights", offset);
    const std::string json = hf_config_json(model, DType::kFloat32);
    touch(folder / kModelConfigName, json);
    manifest.copies = {{kModelConfigName, json.size(), {}}};
    write_file_durably(folder / kManifestName, manifest_text(manifest));
    publish_iteration(root_.path(), step);
  }

  std::string path(int64_t step) const { return (root_ / iteration_name(step)).string(); }

  const test::TempDir root_;
};

TEST_F(Checkpoints, AreComparedByTheirManifests) {
  write(1, model_of({}));
  EXPECT_EQ(said(root_.path()), "");
  EXPECT_EQ(said(path(1), {}, kBase), "");
  const Found other = look(root_.path(), {"model.hidden_size=128"}, kBase);
  EXPECT_THAT(format_issues(other.issues),
              HasSubstr("the checkpoint does not fit the model:\n  of another shape ("));
  EXPECT_TRUE(other.of_checkpoint);
  EXPECT_THAT(said(root_.path(), {"model.tie_word_embeddings=true"}, kBase),
              HasSubstr("not in the model (1): lm_head.weight"));
}

TEST_F(Checkpoints, TheStateOfTheOptimizerIsAskedFor) {
  write(1, model_of({}), "");
  EXPECT_EQ(said(root_.path(), {}, kBase), "");  // SGD without momentum keeps nothing
  const std::vector<std::string> adam = {"optimizer.type=AdamW"};
  EXPECT_THAT(said(root_.path(), adam, kBase),
              HasSubstr("holds no state of an optimizer, the run needs that of AdamW"));
  EXPECT_EQ(said(root_.path(), {"optimizer.type=AdamW", "checkpoint.no_load_optim=true"}, kBase),
            "");
}

TEST_F(Checkpoints, ADamagedOneAmongSeveralIsPassedOver) {
  write(1, model_of({}));
  write(2, model_of({}));
  fs::resize_file(path(2) + "/weights", 5);
  const Found found = look(root_.path(), {}, kBase);
  EXPECT_FALSE(has_errors(found.issues));
  EXPECT_THAT(format_issues(found.issues), HasSubstr("weights: damaged: 5 bytes, should be "));
  EXPECT_TRUE(has_errors(look(path(2), {}, kBase).issues));
  fs::remove(path(1) + "/" + kManifestName);
  EXPECT_THAT(said(root_.path(), {}, kBase), HasSubstr("no checkpoint is sound: "));
}

TEST_F(Checkpoints, ResumeAutoTakesTheOwnOnesAsSoonAsOneIsComplete) {
  const std::vector<std::string> own = {"checkpoint.resume=auto",
                                        "checkpoint.save_path='" + root_.path().string() + "'"};
  // Its own folder, and nothing in it yet: a fresh start.
  EXPECT_EQ(said(root_.path(), own, kBase), "");
  EXPECT_EQ(
      said(root_ / "none",
           {"checkpoint.resume=auto", "checkpoint.save_path='" + (root_ / "none").string() + "'"},
           kBase),
      "");
  EXPECT_THAT(said("/no/such/model", own, kBase), HasSubstr("no such folder"));
  write(1, model_of({}));
  EXPECT_EQ(said("/no/such/model", own, kBase), "");
  std::vector<std::string> other = own;
  other.emplace_back("model.hidden_size=128");
  EXPECT_THAT(said("", other, kBase), HasSubstr("checkpoint.resume = auto: "));
  // The model comes from there when load_path is gone.
  EXPECT_EQ(said("/no/such/model", own), "");
}

}  // namespace
}  // namespace tessera
