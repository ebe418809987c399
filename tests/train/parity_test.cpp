// `tessera parity`: right layouts pass, every injected fault is named.

#include "tessera/train/parity/parity.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/config/load.h"
#include "tests/support/case_path.h"

namespace tessera::test {
namespace {

ParityReport parity(const std::vector<std::string>& set, int64_t ranks, const std::string& fault,
                    const std::string& name = "llama_sgd64") {
  const ConfigResult file = load_config((case_path(name) / "config.yaml").string(), set);
  if (!file.ok()) throw ConfigError(format_issues(file.issues));
  ParityOptions options;
  options.ranks = ranks;
  options.steps = 2;
  if (!fault.empty()) options.faults = parse_fault(fault);
  return run_parity(file.config, options);
}

const std::vector<std::string> kHsdp = {"parallelism.data_parallel_shard=2",
                                        "training.local_batch_size=2"};

const ParityFinding* first_gradient(const ParityReport& report) {
  for (const ParityFinding& finding : report.findings) {
    if (finding.what.starts_with("gradient of")) return &finding;
  }
  return nullptr;
}

TEST(Parity, HoldsForARightLayout) {
  const ParityReport report = parity(kHsdp, 4, "");
  EXPECT_TRUE(report.passed()) << parity_text(report);
  EXPECT_EQ(report.losses.size(), 2U);
  EXPECT_LT(report.worst_gradient, 1e-12);
  EXPECT_GT(report.worst_gradient, 0.0);  // the layouts do differ in rounding
  EXPECT_NE(parity_text(report).find("parity holds"), std::string::npos);
}

TEST(Parity, NamesADoubledGradient) {
  const ParityReport report = parity(kHsdp, 4, "scale_gradient:layer 1");
  const ParityFinding* finding = first_gradient(report);
  ASSERT_NE(finding, nullptr) << parity_text(report);
  EXPECT_NE(finding->what.find("model.layers.1."), std::string::npos) << finding->what;
  EXPECT_NEAR(finding->ratio, 2.0, 1e-9);
}

TEST(Parity, NamesASkippedReduction) {
  const ParityReport report = parity(kHsdp, 4, "skip_reduction:head");
  const ParityFinding* finding = first_gradient(report);
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->what.find("lm_head") != std::string::npos ||
              finding->what.find("model.norm") != std::string::npos)
      << finding->what;
  EXPECT_NE(finding->axis.find("fsdp"), std::string::npos) << finding->axis;
}

TEST(Parity, NamesShiftedLabelsByTheLoss) {
  const ParityReport report = parity(kHsdp, 4, "shift_labels");
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.findings.front().what, "loss of step 1");
}

TEST(Parity, NamesAReplicaThatDiffers) {
  const ParityReport report = parity(kHsdp, 4, "perturb_replica:3");
  ASSERT_FALSE(report.passed());
  bool named = false;
  for (const ParityFinding& finding : report.findings) {
    named |= finding.what.find("its copies differ") != std::string::npos &&
             finding.axis == "dp_replicate";
  }
  EXPECT_TRUE(named) << parity_text(report);
}

TEST(Parity, CountsChoicesOfExpertsThatDiffer) {
  const std::vector<std::string> set = {"training.local_batch_size=2",
                                        "parallelism.data_parallel_shard=-1",
                                        "parallelism.expert_parallel=2"};
  const ParityReport right = parity(set, 4, "", "qwen3_moe_aux64");
  EXPECT_TRUE(right.passed()) << parity_text(right);
  EXPECT_TRUE(right.routes.empty());
  const ParityReport wrong = parity(set, 4, "double_weights:layer 1", "qwen3_moe_aux64");
  ASSERT_FALSE(wrong.routes.empty());
  EXPECT_EQ(wrong.routes.front().step, 1);
  EXPECT_GE(wrong.routes.front().layer, 2);  // layer 1 chose before its experts went wrong
  EXPECT_GT(wrong.routes.front().tokens, 0);
  EXPECT_NE(parity_text(wrong).find("routing differs: at least"), std::string::npos);
  EXPECT_NE(parity_json(wrong).find("\"routes\": [\n"), std::string::npos);
}

TEST(Parity, NamesASummedTwiceNormUnderTensorParallelism) {
  const ParityReport report = parity(
      {"parallelism.tensor_parallel=2", "training.local_batch_size=2"}, 2, "skip_partial:tp");
  const ParityFinding* finding = first_gradient(report);
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->what.find("norm"), std::string::npos) << finding->what;
  EXPECT_EQ(finding->axis, "tp");
}

TEST(Parity, RefusesBatchesOfDifferentSize) {
  // 4 batch ranks x 1 x 2 = 8 of 9 samples; one rank would take 9.
  EXPECT_THROW(parity({"training.global_batch_size=9", "training.local_batch_size=1"}, 4, ""),
               ConfigError);
}

TEST(Faults, AreReadFromWords) {
  const Faults partial = parse_fault("skip_partial:tp:model.norm.weight");
  EXPECT_EQ(partial.kind, Faults::Kind::kSkipPartial);
  EXPECT_EQ(partial.unit, "tp");
  EXPECT_EQ(partial.parameter, "model.norm.weight");
  EXPECT_EQ(parse_fault("perturb_replica").rank, 1);
  const Faults loss = parse_fault("non_finite_loss:2:5");
  EXPECT_EQ(loss.rank, 2);
  EXPECT_EQ(loss.step, 5);
  EXPECT_EQ(parse_fault("drop_micro_batch:3").micro_batch, 3);
}

TEST(Faults, AnUnknownOneIsRefusedWithTheList) {
  for (const char* text : {"", "scale", "scale_gradient", "scale_gradient:", "skip_partial:tp:a:b",
                           "perturb_replica:x", "drop_micro_batch:-1", "shift_labels:1"}) {
    try {
      parse_fault(text);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("skip_partial:AXIS[:NAME]"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tessera::test
