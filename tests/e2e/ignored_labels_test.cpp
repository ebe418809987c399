// Labels that do not count (model.ignore_token_id): the head, the number that divides the loss and
// the number that is reported leave out the same ones. The expected numbers come from outside:
// tests/cases/ignored_labels.py makes them with other software, or a formula gives them.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/token_files.h"
#include "tests/e2e/layout.h"
#include "tests/support/near_rel.h"

namespace tessera::test {
namespace {

std::string ignored(int64_t id) { return "model.ignore_token_id=" + std::to_string(id); }

struct Expected {
  double loss, grad_norm;
  int64_t tokens;
};

struct Case {
  std::string name;
  int64_t id;
  std::vector<Expected> steps;
};

// The second has packed documents, EODs that carry no loss and labels that are EODs: the ignored
// ones; four micro-batches, and as many labels in no two of them.
const std::vector<Case> kCases = {
    {"llama_sgd64",
     7,
     {{6.00513491012484, 2.21246047099179, 509}, {6.03979453296651, 1.82975879392741, 508}}},
    {"qwen3_eod64",
     2,
     {{5.98678581419467, 2.08737210783137, 468}, {5.93534491085496, 2.06509782325223, 464}}}};

class IgnoredLabels : public testing::TestWithParam<Layout> {};

TEST_P(IgnoredLabels, CountForNothing) {
  const Layout& layout = GetParam();
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::vector<std::string> set = layout.set;
    set.push_back(ignored(c.id));
    const auto run = train(load_case(c.name, set, layout.ranks), layout.ranks, 2);
    ASSERT_EQ(run->steps.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR_REL(run->steps[i].loss, c.steps[i].loss, 1e-9) << "step " << i + 1;
      EXPECT_NEAR_REL(run->steps[i].grad_norm, c.steps[i].grad_norm, 1e-9) << "step " << i + 1;
      EXPECT_EQ(run->steps[i].tokens, c.steps[i].tokens) << "step " << i + 1;
      EXPECT_TRUE(run->steps[i].updated);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, IgnoredLabels,
    testing::Values(Layout{"one", 1, {}}, Layout{"fsdp4", 4, {local_batch(1), shard(4)}},
                    Layout{"tp2", 2, {tp(2), local_batch(2)}},
                    Layout{"cp2_pp2",
                           4,
                           {"parallelism.context_parallel=2", "parallelism.pipeline_parallel=2",
                            "parallelism.pipeline_parallel_layers_per_stage=auto",
                            "model.use_attn_mask_compression=true", local_batch(2)}}),
    layout_name);

// All logits of the first step are zero: the loss of a label is the logarithm of the vocabulary,
// and a mean is that whatever counts, if it is divided by what it sums. So are the loss of the
// tokens after the next (times its weight), and the balance of experts that are all alike (1); the
// square of the log of the sum of X exponentials of 0 is that of log X, in each of four layers.
TEST(IgnoredLabels, EveryMeanIsDividedByWhatItSums) {
  for (const int64_t ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const auto run =
        train(load_case("deepseek_v3_64",
                        {"checkpoint.load_path=''", "model.initializer_range=0",
                         "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3",
                         "model.moe_aux_loss_coeff=0.01", "model.moe_z_loss_coeff=0.001",
                         ignored(2), local_batch(2), shard(ranks)},
                        ranks),
              ranks, 1);
    const StepMetrics& step = run->steps.at(0);
    const double of_label = std::log(256.0), of_experts = std::log(8.0);
    EXPECT_EQ(step.tokens, 512 - 8);
    EXPECT_NEAR_REL(step.loss, of_label, 1e-12);
    EXPECT_NEAR_REL(step.mtp_loss.value(), 0.3 * of_label, 1e-12);
    EXPECT_NEAR_REL(step.load_balancing_loss.value(), 1.0, 1e-12);
    EXPECT_NEAR_REL(step.z_loss.value(), 0.001 * 4 * of_experts * of_experts, 1e-12);
  }
}

// Documents of one and the same token: no label is left, and nothing is updated.
TEST(IgnoredLabels, WithNoneLeftNothingIsUpdated) {
  const TempDir folder;
  const std::string prefix =
      write_token_file(folder.path() / "same", {std::vector<int32_t>(2000, 7)});
  const std::vector<std::string> set = {
      "train_dataset.dataloader.config.data_path=[" + prefix + "]",
      "train_dataset.dataloader.sizes=[16, 0, 0]", local_batch(2)};
  const auto changed = [&](const std::string& more, int64_t steps) {
    std::vector<std::string> all = set;
    all.push_back(more);
    return train(load_case("llama_sgd64", all, 1), 1, steps);
  };
  const auto initial = changed("lr_scheduler.learning_rate=0", 1);
  EXPECT_EQ(initial->steps[0].tokens, 512);
  EXPECT_TRUE(initial->steps[0].updated);
  const auto run = changed(ignored(7), 2);
  for (const StepMetrics& step : run->steps) {
    EXPECT_EQ(step.tokens, 0);
    EXPECT_FALSE(step.updated);
    EXPECT_EQ(step.loss, 0.0);
    EXPECT_EQ(step.grad_norm, 0.0);
  }
  for (const auto& [name, value] : initial->values) {
    EXPECT_TRUE(at::equal(run->values.at(name), value)) << name;
  }
}

}  // namespace
}  // namespace tessera::test
