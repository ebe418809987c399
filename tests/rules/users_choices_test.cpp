// What users write that is nearly right: one clear answer each.

#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using testing::HasSubstr;

TEST(Batch, TheNearestLegalOnesOnBothSidesAreNamed) {
  const auto issues =
      check_base(4, {"training.global_batch_size=10", "training.local_batch_size=2"});
  EXPECT_THAT(issues, HasWarning("training.global_batch_size", "nearest legal: 8, 16"));
}

TEST(Values, ANegativeRateIsReportedOnce) {
  const auto issues = check_base(1, {"lr_scheduler.learning_rate=-0.1"});
  EXPECT_EQ(count(issues, Severity::kError), 1) << format_issues(issues);
  EXPECT_THAT(issues, HasError("lr_scheduler.learning_rate", "must be"));
  EXPECT_THAT(check_base(1, {"lr_scheduler={type: CosineAnnealingLR, base_lr: -0.1}"}),
              HasError("lr_scheduler.base_lr", "must be"));
}

TEST(Dataset, WeightsNeedSizes) {
  const std::string path = "train_dataset.dataloader.config.data_path";
  EXPECT_THAT(check_base(1, {path + "=[0.3, a, 0.7, b]"}), HasError(path, "dataloader.sizes"));
  EXPECT_THAT(
      check_base(1, {path + "=[0.3, a, 0.7, b]", "train_dataset.dataloader.sizes=[80,0,0]"}),
      HasNoErrors());
  EXPECT_THAT(check_base(1, {path + "=[a, b]"}), HasNoErrors());
}

TEST(Resume, TakesNeverAndAuto) {
  EXPECT_THAT(check_base(1, {"checkpoint.resume=auto"}), HasNoErrors());
  EXPECT_THAT(check_base(1, {"checkpoint.resume=always"}), HasError("checkpoint.resume", "auto"));
}

constexpr const char* kPublished =
    R"({"model_type": "deepseek_v3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 176,
 "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
 "num_nextn_predict_layers": 1})";

std::vector<Issue> read_with(const std::string& config_json, const std::vector<std::string>& more) {
  const TempDir folder;
  folder.write("config.json", config_json);
  std::vector<std::string> sets = {"checkpoint.load_path='" + folder.path() + "'",
                                   "model.model_type=deepseek_v3"};
  sets.insert(sets.end(), more.begin(), more.end());
  return load_config_text("", "x.yaml", "/nonexistent", sets).issues;
}

TEST(Published, MultiTokenPredictionMayBeLeftOut) {
  const auto issues = read_with(kPublished, {"model.num_nextn_predict_layers=0"});
  EXPECT_TRUE(issues.empty()) << format_issues(issues);
  EXPECT_THAT(read_with(kPublished, {"model.num_nextn_predict_layers=2"}),
              HasError("model.num_nextn_predict_layers", "must agree"));
}

TEST(Published, AByteOrderMarkIsRead) {
  EXPECT_THAT(read_with(std::string("\xEF\xBB\xBF") + kPublished, {}), HasNoErrors());
  EXPECT_THAT(read_with(std::string("\xEF\xBB\xBF") + kPublished, {"model.hidden_size=32"}),
              HasError("model.hidden_size", "must agree"));
}

}  // namespace
}  // namespace tessera
