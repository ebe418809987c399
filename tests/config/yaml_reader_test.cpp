#include "tessera/config/yaml/yaml_reader.h"

#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using testing_config::check_text;
using testing_config::HasError;
using testing_config::kBase;

ConfigResult read(const std::string& text, const std::vector<std::string>& sets = {}) {
  return load_config_text(text, "x.yaml", "/nonexistent", sets);
}

std::string only_issue(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto issues = read(text, sets).issues;
  return issues.size() == 1 ? format_issue(issues[0]) : format_issues(issues);
}

TEST(YamlReader, DefaultsAreInPlace) {
  const Config config = read("").config;
  EXPECT_EQ(config.training.steps, 1000);
  EXPECT_EQ(config.parallelism.data_parallel_shard, -1);
  EXPECT_EQ(config.optimizer.betas, (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(config.checkpoint.prefix, "checkpoint");
  EXPECT_EQ(config.output_dir, "./output");
  EXPECT_TRUE(read("").issues.empty());
}

TEST(YamlReader, ValuesAndTheirPlaces) {
  const ConfigResult result = read(
      "training:\n  steps: 5\n  max_norm: 1\ncheckpoint:\n  prefix: null\nparallelism:\n"
      "  pipeline_parallel_layers_per_stage:\n    - '0-1, 4-8'\n    - \"2-3, 9\"\n"
      "  context_parallel_method: Ulysses\n  cpu_offload: False\n");
  EXPECT_TRUE(result.issues.empty()) << format_issues(result.issues);
  EXPECT_EQ(result.config.training.steps, 5);
  EXPECT_EQ(result.config.training.max_norm, 1.0);
  EXPECT_EQ(result.config.checkpoint.prefix, std::nullopt);
  EXPECT_EQ(result.config.parallelism.context_parallel_method, "ulysses");
  EXPECT_EQ(result.config.parallelism.pipeline_parallel_layers_per_stage->stages[1], "2-3, 9");
  EXPECT_EQ(result.provenance.at("training.steps").line, 2);
  EXPECT_EQ(result.provenance.at("parallelism.pipeline_parallel_layers_per_stage[1]").line, 9);
  EXPECT_FALSE(result.provenance.contains("training.seed"));
}

TEST(YamlReader, WrongTypesAreRefusedByName) {
  EXPECT_EQ(only_issue("training:\n  steps: True\n"),
            "x.yaml:2: training.steps = True: must be int, not bool");
  EXPECT_EQ(only_issue("training: {steps: '5'}"),
            "x.yaml:1: training.steps = \"5\": must be int, not str");
  EXPECT_EQ(only_issue("training: {steps: 5.0}"),
            "x.yaml:1: training.steps = 5.0: must be int, not float");
  EXPECT_EQ(only_issue("training: {steps: null}"),
            "x.yaml:1: training.steps = null: must be int, not null");
  EXPECT_EQ(only_issue("training: {steps: [5]}"),
            "x.yaml:1: training.steps = [5]: must be int, not list");
  EXPECT_EQ(only_issue("training: {deterministic: 1}"),
            "x.yaml:1: training.deterministic = 1: must be bool, not int");
  EXPECT_EQ(only_issue("optimizer: {eps: abc}"),
            "x.yaml:1: optimizer.eps = abc: must be float, not str");
  EXPECT_EQ(only_issue("optimizer: {eps: .nan}"),
            "x.yaml:1: optimizer.eps = .nan: must be a finite number");
  EXPECT_EQ(only_issue("optimizer: {type: 5}"),
            "x.yaml:1: optimizer.type = 5: must be str, not int");
  EXPECT_EQ(only_issue("optimizer: {betas: [0.9, x]}"),
            "x.yaml:1: optimizer.betas = [0.9, x]: item 1 must be float, not str");
  EXPECT_EQ(only_issue("training: {steps: 99999999999999999999}"),
            "x.yaml:1: training.steps = 99999999999999999999: must be an int of at most 64 bits");
  EXPECT_EQ(only_issue("training: 5"), "x.yaml:1: training = 5: must be a section (dict), not int");
  EXPECT_EQ(only_issue("checkpoint: {load_worker_number: x}"),
            "x.yaml:1: checkpoint.load_worker_number = x: must be int, not str");
  EXPECT_EQ(only_issue("model: {model_type: llama, compute_dtype: float8}"),
            "x.yaml:1: model.compute_dtype = float8: must be one of float32, bfloat16, float64, "
            "float16");
}

TEST(YamlReader, NumbersOfYaml11AreAccepted) {
  EXPECT_EQ(read("optimizer: {eps: 1e-8}").config.optimizer.eps, 1e-8);
  EXPECT_EQ(read("optimizer: {eps: 1.e-8}").config.optimizer.eps, 1e-8);
  EXPECT_EQ(read("optimizer: {weight_decay: 0}").config.optimizer.weight_decay, 0.0);
}

TEST(YamlReader, UnknownKeysAreRefusedInEverySection) {
  const std::string text =
      "optimizer:\n  learning_rat: 0.1\nparallelism:\n  tensor_paralel: 2\ntraining:\n"
      "  global_batchsize: 8\nmodel:\n  num_layer: 4\ntrain_dataset:\n  dataloder: {}\n";
  const auto issues = read(text).issues;
  EXPECT_EQ(format_issues(issues),
            "x.yaml:2: optimizer.learning_rat = 0.1: unknown key; did you mean "
            "lr_scheduler.learning_rate?\n"
            "x.yaml:4: parallelism.tensor_paralel = 2: unknown key; did you mean "
            "tensor_parallel?\n"
            "x.yaml:6: training.global_batchsize = 8: unknown key; did you mean "
            "global_batch_size?\n"
            "x.yaml:8: model.num_layer = 4: unknown key; did you mean num_layers?\n"
            "x.yaml:10: train_dataset.dataloder = {}: unknown key; did you mean dataloader?\n");
  EXPECT_EQ(only_issue("trainig: {steps: 1}"),
            "x.yaml:1: trainig = {steps: 1}: unknown key; did you mean training?");
  EXPECT_EQ(
      only_issue("monitor: {train_state: {local_los: true}}"),
      "x.yaml:1: monitor.train_state.local_los = true: unknown key; did you mean local_loss?");
  EXPECT_EQ(only_issue("model: {rope_scaling: {factr: 2.0}}"),
            "x.yaml:1: model.rope_scaling.factr = 2.0: unknown key; did you mean factor?");
  EXPECT_EQ(only_issue("zzzz: 1"), "x.yaml:1: zzzz = 1: unknown key");
}

TEST(YamlReader, OtherNamesOfAKeyAreAcceptedAndMustAgree) {
  EXPECT_EQ(read("model: {model_type: qwen3_moe, num_experts: 4}").config.model.n_routed_experts,
            4);
  EXPECT_EQ(read("model: {model_type: llama, num_layers: 3}").config.model.num_hidden_layers, 3);
  EXPECT_TRUE(
      read("model: {model_type: llama, num_layers: 3, num_hidden_layers: 3}").issues.empty());
  EXPECT_EQ(only_issue("model:\n  model_type: llama\n  num_hidden_layers: 4\n  num_layers: 3\n"),
            "x.yaml:4: model.num_layers = 3: is another name of model.num_hidden_layers = 4, which "
            "must be the same");
  EXPECT_EQ(read("model: {model_type: llama, rope_parameters: {rope_theta: 5.0, rope_type: linear, "
                 "factor: 2}}")
                .config.model.rope_theta,
            5.0);
}

TEST(YamlReader, OverridesAreReadAndReportedLikeLines) {
  const Config config = read(kBase, {"training.steps=7", "optimizer.betas=[0.8, 0.9]",
                                     "model.num_layers=6", "parallelism={tensor_parallel: 2}"})
                            .config;
  EXPECT_EQ(config.training.steps, 7);
  EXPECT_EQ(config.optimizer.betas[0], 0.8);
  EXPECT_EQ(config.model.num_hidden_layers, 6);
  EXPECT_EQ(config.parallelism.tensor_parallel, 2);
  EXPECT_EQ(only_issue(kBase, {"training.steps=many"}),
            "--set training.steps=many: training.steps = many: must be int, not str");
  EXPECT_EQ(only_issue(kBase, {"training.step=5"}),
            "--set training.step=5: training.step = 5: unknown key; did you mean steps?");
  EXPECT_EQ(only_issue(kBase, {"training.steps"}),
            "--set training.steps: must be section.field=value");
  EXPECT_EQ(only_issue(kBase, {"training..steps=3"}),
            "--set training..steps=3: must be section.field=value");
  EXPECT_EQ(only_issue(kBase, {"training.steps.more=3"}),
            "--set training.steps.more=3: goes through something that is no section");
  EXPECT_EQ(read(kBase, {"training.steps=7"}).provenance.at("training.steps").file,
            "--set training.steps=7");
}

TEST(YamlReader, TheLastOverrideWins) {
  EXPECT_EQ(read(kBase, {"training.steps=7", "training.steps=8"}).config.training.steps, 8);
}

TEST(YamlReader, SectionsMayBeEmpty) {
  EXPECT_TRUE(read("training:\nparallelism: null\nmodel: {}\n").issues.empty());
}

TEST(YamlReader, AFileThatIsNoDictIsRefused) {
  EXPECT_EQ(only_issue("[1, 2]"), "x.yaml:1: the document must be a dict of sections, not list");
  EXPECT_EQ(only_issue("hello"), "x.yaml:1: the document must be a dict of sections, not str");
}

// The library reads these as documents without end.
TEST(YamlReader, ACommaOutsideOfBracketsIsRefused) {
  const std::string rule =
      "not valid YAML: nothing of YAML begins there; a ',' stands outside of brackets";
  EXPECT_EQ(only_issue(","), "x.yaml:1: " + rule);
  EXPECT_EQ(only_issue("# x\n, a"), "x.yaml:2: " + rule);
  EXPECT_EQ(only_issue("--- ,"), "x.yaml:1: " + rule);
  EXPECT_EQ(only_issue("%YAML 1.2\n---\n,"), "x.yaml:3: " + rule);
  EXPECT_EQ(only_issue("{\"training\": {\"steps\": 1}},\n"), "x.yaml:1: " + rule);
  EXPECT_EQ(only_issue("training: {steps: 1}\n...\n,"), "x.yaml:3: " + rule);
  EXPECT_EQ(only_issue("&a ,"), "x.yaml:1: " + rule);
  EXPECT_EQ(only_issue("!t ,"), "x.yaml:1: " + rule);
  for (const char* value : {",", ", a", "[1],", "{a: 1},"}) {
    const std::string set = std::string("training.steps=") + value;
    EXPECT_EQ(only_issue("", {set}), "--set " + set + ": " + rule);
  }
  EXPECT_EQ(only_issue("training: {steps: 1},\noutput_dir: x\n"),
            "x.yaml:1: not valid YAML: end of map not found; a ',' stands outside of brackets");
}

TEST(YamlReader, BytesThatAreNoUtf8AreRefused) {
  EXPECT_EQ(only_issue("training: {steps: 1}\noutput_dir: caf\xE9\n"),
            "x.yaml:2: not valid YAML: the byte 0xE9 is no UTF-8; a text in Latin-1 or the like "
            "must be converted");
  EXPECT_THAT(only_issue("", {"output_dir=\xC3("}),
              testing::HasSubstr("the byte 0xC3 is no UTF-8"));
  EXPECT_EQ(read("output_dir: caf\xC3\xA9\n").config.output_dir, "caf\xC3\xA9");
  const std::string wide("\xFF\xFEo\0u\0t\0p\0u\0t\0_\0d\0i\0r\0:\0 \0x\0", 28);
  EXPECT_EQ(read(wide).config.output_dir, "x");
}

TEST(YamlReader, OneDocumentIsRead) {
  EXPECT_TRUE(only_issue("---\ntraining: {steps: 1}\n...\n").empty());
  EXPECT_EQ(only_issue("training: {steps: 1}\n---\ntraining: {steps: 2}\n"),
            "x.yaml: holds several documents (---); one is read");
  EXPECT_EQ(only_issue("training: {steps: 1}\n---\n---\n---\n,"),
            "x.yaml: holds several documents (---); one is read");
}

TEST(YamlReader, NullLeavesKeysOfOpenSectionsOut) {
  const ConfigResult result = read(
      "model: {model_type: llama, first_k_dense_replace: null, head_dim: null}\n"
      "lr_scheduler: {warmup_steps: null}\n"
      "train_dataset: {dataloader: {config: {mmap_bin_files: null}}}\n");
  EXPECT_TRUE(result.issues.empty()) << format_issues(result.issues);
  EXPECT_EQ(result.config.model.head_dim, 128);
  EXPECT_FALSE(result.provenance.contains("lr_scheduler.warmup_steps"));
}

TEST(YamlReader, WhatCouldNotBeReadIsNotJudged) {
  const auto issues = check_text(kBase, 1, {"model.model_type=5", "lr_scheduler=3"}).issues;
  EXPECT_EQ(testing_config::count(issues, Severity::kError), 2) << format_issues(issues);
}

TEST(YamlReader, AMissingFileIsOneError) {
  const ConfigResult result = load_config("/nonexistent/x.yaml", {});
  ASSERT_EQ(result.issues.size(), 1u);
  EXPECT_EQ(format_issue(result.issues[0]),
            "/nonexistent/x.yaml: cannot be read: No such file or directory");
}

TEST(YamlReader, AllErrorsComeAtOnce) {
  const auto issues =
      check_text(kBase, 4,
                 {"training.steps=-1", "optimizer.type=Adam", "parallelism.tensor_parallel=3",
                  "model.hidden_act=relu", "foo.bar=1"})
          .issues;
  EXPECT_EQ(testing_config::count(issues, Severity::kError), 8) << format_issues(issues);
  EXPECT_THAT(issues, HasError("parallelism.tensor_parallel", "must divide the 4 ranks"));
}

}  // namespace
}  // namespace tessera
