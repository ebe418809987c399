// An optimizer that the program does not know: added here by longer tables, without another line of
// the program. It is planned, trained in several layouts, saved and resumed.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/load.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/planner/plan.h"
#include "tessera/rules/validate.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/parity/parity.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/case_path.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

// The sign of an average of gradients (Bernstein et al. 2018, "signSGD", the form Signum):
// m = beta m + (1 - beta) g, w = w - lr (sign(m) + decay w).
class Signum : public Optimizer {
 public:
  using Optimizer::Optimizer;

 private:
  void update(const DecayGroup& group, double lr) override {
    for (const size_t i : group.params) {
      at::Tensor& value = param(i).value;
      at::Tensor& average = slot(i, 0);
      average.mul_(config().momentum).add_(param(i).grad, 1.0 - config().momentum);
      value.sub_(at::sign(average).add_(value, group.weight_decay), lr);
    }
  }
};

OptimizerTable longer_table() {
  return builtin_optimizers().with({.name = "Signum",
                                    .keys = {"momentum"},
                                    .slots = [](const OptimizerConfig&, const StateOwner&) {
                                      return std::vector<Slot>{{"sign_avg"}};
                                    }});
}

OptimizerMakers longer_makers() {
  OptimizerMakers makers = builtin_optimizer_makers();
  makers.push_back({"Signum", [](const Config& config, ParamTable& table, const DeviceMesh& mesh) {
                      return std::make_unique<Signum>(config, table, mesh);
                    }});
  return makers;
}

const Layout kOneRank = {"one_rank", 1, {}};
const std::vector<Layout> kLayouts = {
    {"fsdp", 4, {shard(4), local_batch(2)}},
    {"tp", 4, {shard(2), tp(2), local_batch(4)}},
    {"pp",
     4,
     {shard(2), "parallelism.pipeline_parallel=2",
      "parallelism.pipeline_parallel_layers_per_stage=auto", local_batch(2)}}};

ConfigResult read(const Layout& layout, const std::vector<std::string>& more,
                  const OptimizerTable& table) {
  std::vector<std::string> set = {"checkpoint.load_path=''",         "optimizer.type=Signum",
                                  "optimizer.momentum=0.5",          "optimizer.weight_decay=0.1",
                                  "lr_scheduler.learning_rate=1e-3", "training.steps=4"};
  set = set + layout.set + more;
  ConfigResult result = load_config((case_path("llama_sgd64") / "config.yaml").string(), set,
                                    builtin_families(), table);
  result.issues = validate(result, layout.ranks, 0, builtin_families(), table);
  return result;
}

Config load(const Layout& layout, const std::vector<std::string>& more = {}) {
  ConfigResult result = read(layout, more, longer_table());
  for (const Issue& issue : result.issues) {
    EXPECT_NE(issue.severity, Severity::kError) << issue.field << ": " << issue.rule;
  }
  return std::move(result.config);
}

TrainerOptions with_longer_makers() {
  TrainerOptions options;
  options.optimizers = longer_makers();
  return options;
}

std::unique_ptr<RunRecord> run_longer_until(const Config& config, int64_t ranks, int64_t last) {
  return run_until(config, ranks, last, with_longer_makers());
}

TEST(OpenOptimizer, IsUnknownWithoutItsRow) {
  EXPECT_TRUE(has_errors(read(kOneRank, {}, builtin_optimizers()).issues));
  const Config config = load(kOneRank);
  TrainerOptions options;
  options.source = open_training_data(config);
  EXPECT_ANY_THROW(run_ranks(
      1, [&](const ProcessGroup& world) { Trainer(config, world, options).train_step(); }));
}

// A key that only other optimizers have is named; its own is not.
TEST(OpenOptimizer, HasItsKeysAndNoOthers) {
  std::string said;
  for (const Issue& issue : read(kOneRank, {"optimizer.eps=1e-7"}, longer_table()).issues) {
    said += issue.rule + "\n";
  }
  EXPECT_NE(said.find("optimizer.eps"), std::string::npos) << said;
  EXPECT_EQ(said.find("optimizer.momentum"), std::string::npos) << said;
}

TEST(OpenOptimizer, FirstUpdateIsItsFormula) {
  const Config config = load(kOneRank);
  std::map<std::string, at::Tensor> before, gradients;
  TrainerOptions options = with_longer_makers();
  options.source = open_training_data(config);
  options.on_gradients = [&](int64_t, const ParamTable& table, const DeviceMesh&) {
    for (const auto& param : table.params()) {
      before[param->name] = param->value.clone();
      gradients[param->name] = param->grad.clone();
    }
  };
  size_t compared = 0;
  options.on_step = [&](const StepMetrics& metrics, const ParamTable& table, const DeviceMesh&) {
    for (const auto& param : table.params()) {
      const double decay = param->shape.size() > 1 ? 0.1 : 0.0;
      const at::Tensor& old = before.at(param->name);
      const at::Tensor expected =
          old - metrics.lr * (at::sign(gradients.at(param->name)) + decay * old);
      EXPECT_LT((param->value - expected).abs().max().item<double>(), 1e-15) << param->name;
      ++compared;
    }
  };
  run_ranks(1, [&](const ProcessGroup& world) { Trainer(config, world, options).train_step(); });
  EXPECT_GT(compared, 0U);
}

TEST(OpenOptimizer, IsPlannedToTheByte) {
  for (const Layout& layout : kLayouts) {
    const Config config = load(layout);
    const Plan plan = make_plan(config, layout.ranks);
    const std::vector<int64_t> held =
        measure_memory(config, layout.ranks, with_longer_makers()).persistent;
    for (size_t rank = 0; rank < held.size(); ++rank) {
      EXPECT_GT(plan.memory[rank].moments, 0);
      EXPECT_EQ(held[rank], plan.memory[rank].weights + plan.memory[rank].moments)
          << layout.name << " rank " << rank;
    }
  }
}

TEST(OpenOptimizer, ParityHolds) {
  for (const Layout& layout : kLayouts) {
    ParityOptions options;
    options.ranks = layout.ranks;
    options.steps = 2;
    options.optimizers = longer_makers();
    const ParityReport report = run_parity(load(layout), options);
    EXPECT_TRUE(report.passed()) << layout.name << "\n" << parity_text(report);
  }
}

// The run that was saved and resumed is the run that was not interrupted, bit for bit.
TEST(OpenOptimizer, ResumesBitForBit) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.name);
    const TempDir folder;
    const std::string path = folder.path().string();
    const auto whole = run_longer_until(load(layout), layout.ranks, 4);
    run_longer_until(
        load(layout, {"checkpoint.enable_save=true", "checkpoint.save_path='" + path + "'"}),
        layout.ranks, 2);
    const auto rest = run_longer_until(
        load(layout, {"checkpoint.load_path='" + path + "'", "checkpoint.no_load_optim=false"}),
        layout.ranks, 4);
    ASSERT_EQ(rest->steps.size(), 2U);
    EXPECT_LT(whole->steps.back().loss, whole->steps.front().loss);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(rest->steps[i].loss, whole->steps[2 + i].loss);
      EXPECT_EQ(rest->steps[i].grad_norm, whole->steps[2 + i].grad_norm);
    }
    ASSERT_EQ(rest->values.size(), whole->values.size());
    for (const auto& [name, value] : whole->values) {
      EXPECT_TRUE(at::equal(rest->values.at(name), value)) << name;
    }
  }
}

}  // namespace
}  // namespace tessera::test
