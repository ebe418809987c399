#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using testing::HasSubstr;

TEST(EvalSets, WhatIsLeftOutIsAsInTraining) {
  const Checked checked = check_text(
      kBase, 1,
      {"eval_dataset={dataloader: {config: {data_path: [a/b]}}}", "training.eval_interval=5"});
  const auto& sets = checked.result.config.eval_dataset;
  ASSERT_EQ(sets.size(), 1);
  EXPECT_EQ(sets[0].name, "valid");
  EXPECT_EQ(sets[0].dataloader.type, checked.result.config.train_dataset.dataloader.type);
  EXPECT_EQ(sets[0].dataloader.config.seq_length,
            checked.result.config.train_dataset.dataloader.config.seq_length);
  EXPECT_FALSE(sets[0].dataloader.config.split) << "a split of other files is not its own";
}

TEST(EvalSets, AreWrittenAndReadBack) {
  const Checked checked =
      check_text(kBase, 1,
                 {"eval_dataset=[{name: a, dataloader: {config: {data_path: [a/b]}}}, {name: b, "
                  "dataloader: {config: {data_path: [c/d], seq_length: 9}}}]"});
  const ConfigResult again = load_config_text(to_yaml(checked.result.config), "again", ".", {});
  EXPECT_EQ(again.config.eval_dataset, checked.result.config.eval_dataset)
      << to_yaml(checked.result.config);
}

TEST(EvalSets, FaultsBearTheNameOfTheSet) {
  EXPECT_THAT(check_base(1, {"training.eval_interval=5"}),
              HasError("training.eval_interval", "needs eval_dataset"));
  EXPECT_THAT(check_base(1, {"eval_dataset={dataloader: {config: {data_pth: x}}}"}),
              HasError("eval_dataset.dataloader.config.data_pth", ""));
  EXPECT_THAT(check_base(1, {"eval_dataset=[{name: a}, {name: a}]"}),
              HasError("eval_dataset[1].name", "is the name of another set"));
  EXPECT_THAT(check_base(1, {"eval_dataset={name: 'a b'}"}),
              HasError("eval_dataset.name", "must be letters"));
  EXPECT_THAT(check_base(1, {"eval_dataset={dataloader: {config: {data_path: [a/b], split: "
                             "'1,0,0'}}}"}),
              HasError("eval_dataset.dataloader.config.split", "leaves nothing for validation"));
  EXPECT_THAT(check_base(1, {"eval_dataset=7"}), HasError("eval_dataset", "must be a set"));
  EXPECT_THAT(check_base(1, {"eval_dataset={dataloader: {config: {data_path: [a/b], seq_length: "
                             "9}}}"}),
              HasError("eval_dataset.dataloader.config.seq_length", "must be model.seq_length"));
}

}  // namespace
}  // namespace tessera
