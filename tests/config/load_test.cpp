// Relative paths, and the config.json of a Hugging Face folder.

#include "tessera/config/load.h"

#include "tessera/config/cpu_features.h"
#include "tessera/config/paths.h"
#include "tessera/rules/presence.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using ::testing::HasSubstr;

constexpr const char* kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512,
  "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 8,
  "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
  "max_position_embeddings": 131072, "tie_word_embeddings": true, "attention_bias": false,
  "initializer_range": 0.5, "attention_dropout": 0.3, "dtype": "float16", "pad_token_id": 7,
  "transformers_version": "4.0", "auto_map": [1, 2]
})";

ConfigResult load_with(const TempDir& dir, const std::string& json, const std::string& model) {
  dir.write("model/config.json", json);
  const std::string file =
      dir.write("x.yaml", "checkpoint:\n  load_path: model\n" +
                              (model.empty() ? std::string() : "model:\n" + model));
  return load_config(file, {});
}

TEST(Paths, BesideTheFileWinsElseTheWorkingDirectory) {
  TempDir dir;
  dir.write("data/a.idx", "");
  dir.write("cache/x", "");
  const ConfigResult result = load_config(
      dir.write("x.yaml",
                "output_dir: out\ncheckpoint:\n  save_path: saved\ntrain_dataset:\n  dataloader:\n"
                "    config:\n      data_path: [0.5, data/a, 0.5, data/b]\n"
                "      path_to_cache: cache\n"),
      {});
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  const DatasetConfig& data = result.config.train_dataset.dataloader.config;
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ((*data.data_path)[0], "0.5");
  EXPECT_EQ((*data.data_path)[1], dir.path() + "/data/a");
  EXPECT_EQ((*data.data_path)[3], here + "/data/b");
  EXPECT_EQ(*data.path_to_cache, dir.path() + "/cache");
  EXPECT_EQ(result.config.checkpoint.save_path, here + "/saved");
  EXPECT_EQ(result.config.output_dir, "out");
  EXPECT_EQ(save_directory(result.config), here + "/saved");
  const Config defaults;
  EXPECT_EQ(save_directory(defaults), "./output/checkpoint");
}

TEST(Paths, MissingTokenFilesAreNamed) {
  TempDir dir;
  dir.write("a.idx", "");
  dir.write("a.bin", "");
  dir.write("b.idx", "");
  const ConfigResult result = load_config(dir.write("x.yaml", std::string(kBase)),
                                          {"train_dataset.dataloader.config.data_path=[a, b, c]"});
  const std::string text = format_issues(check_presence(result.config, result.provenance));
  EXPECT_THAT(text, HasSubstr("no such file: " + dir.path() + "/b.bin"));
  EXPECT_THAT(text, HasSubstr("/c.idx"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(Paths, APrefixIsNoFileAndNoFolder) {
  TempDir dir;
  for (const char* name : {"a.idx", "a.bin", "t.jsonl", "d/x"}) dir.write(name, "");
  const auto said = [&](const std::string& path) {
    const ConfigResult result =
        load_config(dir.write("x.yaml", std::string(kBase)),
                    {"train_dataset.dataloader.config.data_path=[" + path + "]"});
    return format_issues(check_presence(result.config, result.provenance));
  };
  EXPECT_EQ(said("a"), "");
  for (const std::string& given :
       std::vector<std::string>{"a.bin", "a.idx", dir.path() + "/a.bin"}) {
    EXPECT_THAT(said(given), HasSubstr("names the prefix of a .bin and an .idx file, without the "
                                       "ending: " +
                                       dir.path() + "/a\n"));
  }
  EXPECT_THAT(said("t.jsonl"), HasSubstr("`tessera preprocess --input " + dir.path() + "/t.jsonl"));
  EXPECT_THAT(said(dir.path() + "/d"), HasSubstr("/d is a folder"));
  EXPECT_THAT(said(".bin"), HasSubstr("no such file: "));
}

TEST(HfConfig, FillsInWhatTheFileLeavesOut) {
  TempDir dir;
  const ConfigResult result = load_with(dir, kLlama, "  seq_length: 128\n");
  ASSERT_TRUE(result.ok()) << format_issues(result.issues);
  const ModelConfig& m = result.config.model;
  EXPECT_EQ(m.model_type, "llama");
  EXPECT_EQ(m.architectures, (std::vector<std::string>{"LlamaForCausalLM"}));
  EXPECT_EQ(m.num_key_value_heads, 2);
  EXPECT_EQ(m.head_dim, 8);  // transformers: hidden_size / num_attention_heads
  EXPECT_EQ(m.rms_norm_eps, 1e-5);
  EXPECT_EQ(m.rope_theta, 500000.0);
  EXPECT_EQ(m.rope_scaling.rope_type, "llama3");
  EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 8192);
  EXPECT_EQ(m.max_position_embeddings, 131072);
  EXPECT_TRUE(m.tie_word_embeddings);
}

TEST(HfConfig, KeysOfTrainingAreNotTaken) {
  TempDir dir;
  const ModelConfig m = load_with(dir, kLlama, "").config.model;
  EXPECT_EQ(m.initializer_range, 0.02);
  EXPECT_EQ(m.attention_dropout, 0.0);
  EXPECT_EQ(m.params_dtype, DType::kFloat32);
  EXPECT_NE(m.pad_token_id, 7);
}

TEST(HfConfig, MustAgreeWithTheFile) {
  TempDir dir;
  const ConfigResult result =
      load_with(dir, kLlama,
                "  hidden_size: 128\n  num_layers: 2\n  rope_theta: 10000.0\n"
                "  initializer_range: 0.1\n  max_position_embeddings: 64\n");
  EXPECT_EQ(count(result.issues, Severity::kError), 2) << format_issues(result.issues);
  EXPECT_THAT(result.issues,
              HasError("model.hidden_size", "must agree with hidden_size = 64 of " + dir.path() +
                                                "/model/config.json:3"));
  EXPECT_THAT(result.issues, HasError("model.rope_theta", "must agree with rope_theta = 500000.0"));
}

TEST(HfConfig, RotaryScalingMustAgree) {
  TempDir dir;
  std::string json(kLlama);
  const size_t begin = json.find("\"rope_scaling\""), end = json.find("},", begin);
  json.replace(begin, end + 2 - begin, "\"rope_scaling\": null,");
  EXPECT_EQ(load_with(dir, json, "").config.model.rope_scaling.rope_type, "default");
  EXPECT_THAT(load_with(dir, json, "  rope_scaling: {type: linear, factor: 2.0}\n").issues,
              HasError("model.rope_scaling.type", "must agree with"));
}

TEST(HfConfig, AnotherFamilyIsRefused) {
  TempDir dir;
  EXPECT_THAT(load_with(dir, kLlama, "  model_type: qwen3\n").issues,
              HasError("model.model_type", "does not fit model_type = llama of"));
}

TEST(HfConfig, FamilyFixesWhatTheFileDoesNotSpell) {
  TempDir dir;
  const std::string json = R"({"model_type": "deepseek_v3", "n_routed_experts": 8, "head_dim": 8,
    "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "q_lora_rank": null})";
  const ConfigResult result = load_with(dir, json, "");
  EXPECT_TRUE(result.config.model.qk_layernorm);
  EXPECT_TRUE(result.config.model.moe_router_enable_expert_bias);
  EXPECT_EQ(result.config.model.q_lora_rank, std::nullopt);
  EXPECT_TRUE(load_with(dir, json, "  head_dim: 64\n").ok());
  EXPECT_THAT(load_with(dir, json, "  qk_layernorm: false\n").issues,
              HasError("model.qk_layernorm", "must agree with model_type deepseek_v3 = true"));
  const std::string moe = R"({"model_type": "qwen3_moe", "num_experts": 8, "hidden_size": 64,
    "num_attention_heads": 4})";
  EXPECT_FALSE(load_with(dir, moe, "").config.model.norm_topk_prob);
  EXPECT_EQ(load_with(dir, moe, "").config.model.head_dim, 16);
}

TEST(HfConfig, WhatIsNotBuiltIsRefused) {
  TempDir dir;
  const auto judged = [&](const std::string& json) {
    return validate(load_with(dir, json, ""), 1);
  };
  EXPECT_THAT(judged(R"({"model_type": "llama", "use_sliding_window": true})"),
              HasError("model.use_sliding_window", "has no windows"));
  EXPECT_THAT(judged(R"({"model_type": "llama", "layer_types": ["sliding_attention"]})"),
              HasError("model.layer_types", "has no windows"));
  EXPECT_THAT(
      load_with(dir, R"({"model_type": "llama", "quantization_config": {"bits": 8}})", "").issues,
      HasError("quantization_config", "quantized weights"));
  EXPECT_THAT(load_with(dir, R"({"model_type": "gpt_oss",
                                 "quantization_config": {"quant_method": "fp8"}})",
                        "")
                  .issues,
              HasError("quantization_config.quant_method", "but for those in mxfp4"));
  EXPECT_THAT(judged(R"({"model_type": "internlm2"})"),
              HasError("model.model_type", "InternLM2, whose wqkv"));
  EXPECT_TRUE(has_errors(load_with(dir, "{\"model_type\": ", "").issues));
  EXPECT_TRUE(has_errors(load_with(dir, "[]", "").issues));
  EXPECT_THAT(load_with(dir, R"({"model_type": "llama", "hidden_size": "wide"})", "").issues,
              HasError("hidden_size", "must be int"));
}

TEST(HfConfig, TwoNamesOfOneThingMustSayTheSame) {
  TempDir dir;
  const auto with = [&](const std::string& more) {
    return load_with(dir, R"({"model_type": "llama", "rope_theta": 10000.0, )" + more + "}", "")
        .issues;
  };
  EXPECT_THAT(with(R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e4})"),
              HasNoErrors());
  EXPECT_THAT(with(R"("rope_parameters": {"rope_type": "default", "rope_theta": 5e5})"),
              HasError("rope_theta", "contradicts rope_theta = 10000.0"));
  EXPECT_THAT(with(R"("rope_scaling": {"type": "linear", "factor": 2.0},
                      "rope_parameters": {"rope_type": "linear", "factor": 4.0})"),
              HasError("factor", "contradicts factor = 2.0"));
}

TEST(HfConfig, ItsFamilyIsNamedSomewhere) {
  TempDir dir;
  const std::string sizes = R"("vocab_size": 512, "hidden_size": 64)";
  const ConfigResult by_class =
      load_with(dir, R"({"architectures": ["LlamaForCausalLM"], )" + sizes + "}", "");
  EXPECT_TRUE(by_class.ok()) << format_issues(by_class.issues);
  EXPECT_EQ(by_class.config.model.model_type, "llama");
  EXPECT_EQ(by_class.config.model.hidden_size, 64);
  const ConfigResult by_file = load_with(dir, "{" + sizes + "}", "  model_type: qwen3\n");
  EXPECT_TRUE(by_file.ok()) << format_issues(by_file.issues);
  EXPECT_EQ(by_file.config.model.hidden_size, 64);
  EXPECT_THAT(
      load_with(dir, "{" + sizes + "}", "").issues,
      HasError("model.model_type", "is not there, and architectures names no known family"));
  EXPECT_THAT(load_with(dir, R"({"model_type": [1], )" + sizes + "}", "").issues,
              HasError("model.model_type", "is not there"));
}

TEST(HfConfig, APointerOfGitLfsIsCalledThat) {
  TempDir dir;
  EXPECT_THAT(
      load_with(dir, "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n", "")
          .issues,
      HasError("", "is a pointer of Git LFS"));
}

TEST(LoadConfig, ADeviceThatIsNotThere) {
  for (const std::string device : {"GPU", "CUDA", "Ascend", "CPU"}) {
    const ConfigResult result =
        load_config_text("context: {device_target: " + device + "}", "x.yaml", "/nonexistent", {});
    const bool needed = device == "GPU" || device == "CUDA";
    const std::string found = format_issues(check_presence(result.config, result.provenance));
    EXPECT_EQ(found.find("this machine has no CUDA device") != std::string::npos,
              needed && !has_cuda_driver())
        << device << found;
  }
}

// Of a file that is no document at all, that is all there is to say.
TEST(LoadConfig, AnUnreadableFileIsOneError) {
  const TempDir folder;
  const auto issues = [](const std::string& path) { return validate(load_config(path, {}), 8); };
  const struct {
    std::string path;
    const char* says;
  } cases[] = {
      {folder.path() + "/none.yaml", "cannot be read: No such file or directory"},
      {folder.path(), "cannot be read: Is a directory"},
      {folder.write("broken.yaml", "training: {steps: [1}\n"), "not valid YAML"},
      {folder.write("scalar.yaml", "hello\n"), "must be a dict of sections, not str"},
      {folder.write("list.yaml", "- a\n"), "must be a dict of sections, not list"},
      {"/dev/zero", "is larger than a configuration is"},
  };
  for (const auto& c : cases) {
    ASSERT_EQ(issues(c.path).size(), 1u) << format_issues(issues(c.path));
    EXPECT_THAT(format_issue(issues(c.path)[0]), testing::HasSubstr(c.says));
  }
  // Nothing in it is something: all that is needed is named.
  EXPECT_GT(issues(folder.write("empty.yaml", "")).size(), 2u);
}

TEST(FamilyDefaults, ColumnsOfTheReference) {
  const auto model = [](const std::string& type) {
    return load_config_text("model: {model_type: " + type + "}", "x", "/nonexistent", {})
        .config.model;
  };
  EXPECT_EQ(model("llama").vocab_size, 151936);
  EXPECT_EQ(model("llama").head_dim, 128);
  EXPECT_EQ(model("llama").hidden_dropout, 0.0);
  EXPECT_FALSE(model("llama").qk_layernorm);
  EXPECT_TRUE(model("qwen3").qk_layernorm);
  EXPECT_EQ(model("deepseek_v3").vocab_size, 129280);
  EXPECT_EQ(model("deepseek_v3").num_nextn_predict_layers, 0);
  EXPECT_EQ(model("deepseek_v3").q_lora_rank, 1536);
  EXPECT_EQ(model("deepseek_v3").moe_shared_expert_intermediate_size, 2048);
  EXPECT_EQ(load_config_text("model: {architectures: Qwen3MoeForCausalLM}", "x", "/nonexistent", {})
                .config.model.model_type,
            "qwen3_moe");
}

TEST(FamilyDefaults, KvHeadsFollowTheHeads) {
  EXPECT_EQ(load_config_text("model: {model_type: llama, num_attention_heads: 8}", "x",
                             "/nonexistent", {})
                .config.model.num_key_value_heads,
            8);
}

TEST(FamilyDefaults, YarnByItsOldNames) {
  const ModelConfig m = load_config_text(
                            "model: {model_type: deepseek_v3, position_embedding_type: yarn, "
                            "rotary_scaling_factor: 8.0, mscale: 1.0, mscale_all_dim: 1.0, "
                            "max_position_embeddings: 4096}",
                            "x", "/nonexistent", {})
                            .config.model;
  EXPECT_EQ(m.rope_scaling.rope_type, "yarn");
  EXPECT_EQ(m.rope_scaling.factor, 8.0);
  EXPECT_EQ(m.rope_scaling.mscale, 1.0);
  EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 4096);
  EXPECT_EQ(m.position_embedding_type, "yarn");
}

}  // namespace
}  // namespace tessera
