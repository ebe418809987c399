#include "tessera/config/fields/field.h"
#include "tessera/config/load.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;

void expect_round_trip(const std::string& text, const std::vector<std::string>& sets = {}) {
  const ConfigResult first = load_config_text(text, "x.yaml", "/nonexistent", sets);
  ASSERT_TRUE(first.ok()) << format_issues(first.issues);
  const std::string yaml = to_yaml(first.config);
  const ConfigResult second = load_config_text(yaml, "resolved.yaml", "/nonexistent", {});
  EXPECT_TRUE(second.issues.empty()) << format_issues(second.issues) << yaml;
  EXPECT_TRUE(first.config == second.config) << yaml;
  EXPECT_EQ(to_yaml(second.config), yaml);
}

TEST(Writer, ReadAgainItIsTheSame) {
  expect_round_trip("");
  expect_round_trip(kBase);
  expect_round_trip(kBase, moe({"model.moe_layer_freq=[0, 1, 0, 1]"}));
  expect_round_trip(kBase, deepseek());
  expect_round_trip(
      kBase,
      {"checkpoint.prefix=null", "checkpoint.save_path='/a b: c#\"\\'", "training.max_norm=1e-300",
       "parallelism.pipeline_parallel_layers_per_stage=['0-1, 4', '2-3']",
       "optimizer={type: AdamW, betas: [0.1, 0.3], weight_decay_include: ['*.bias', \"a\\tb\"]}",
       "recompute={mode: select, select_module: {'mlp.*': ['0-1'], attn: 3}, exclude_op: "
       "{'mlp.router': ['0']}}",
       "callbacks=[{type: MaxLogitsMonitor}]", "monitor.train_state.local_norm=[a, b]",
       "lr_scheduler={type: CosineWithWarmUpLR, warmup_ratio: 0.25, lr_end: 1.0e-7}",
       "model.rope_scaling={type: yarn, factor: 4.0, mscale: 0.5}", "output_dir='null'",
       "train_dataset.dataloader.config.path_to_cache=/tmp/x",
       "train_dataset.dataloader.config.split=[0.9, 0.1]"});
}

TEST(Writer, AResolvedFileNamesNothingThatHasNoEffect) {
  const std::string yaml = to_yaml(load_config_text(kBase, "x.yaml", "/nonexistent", {}).config);
  EXPECT_TRUE(check_text(yaml, 1).issues.empty()) << format_issues(check_text(yaml, 1).issues);
}

TEST(Writer, Scalars) {
  EXPECT_EQ(write_float(1e-8), "1.0e-08");
  EXPECT_EQ(write_float(0.1), "0.1");
  EXPECT_EQ(write_float(1000.0), "1000.0");
  EXPECT_EQ(write_string("data/train"), "data/train");
  EXPECT_EQ(write_string("1f1b"), "\"1f1b\"");
  EXPECT_EQ(write_string("true"), "\"true\"");
  EXPECT_EQ(write_string("a\"b\n"), "\"a\\\"b\\x0a\"");
}

}  // namespace
}  // namespace tessera
