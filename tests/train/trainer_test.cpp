#include "tessera/train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/load.h"
#include "tessera/train/open_training_data.h"
#include "tests/support/case_path.h"

namespace tessera::test {
namespace {

Config load(const std::vector<std::string>& set) {
  ConfigResult file = load_config((case_path("llama_sgd64") / "config.yaml").string(), set);
  if (!file.ok()) throw ConfigError(format_issues(file.issues));
  return file.config;
}

TEST(Trainer, AnInfiniteLossOnOneRankStopsAllAlikeAndUpdatesNothing) {
  const Config config = load({"training.local_batch_size=2"});
  TrainerOptions options;
  options.source = open_training_data(config);
  options.faults = parse_fault("non_finite_loss:2:2");
  std::atomic<int> threw{0};
  run_ranks(4, [&](const ProcessGroup& world) {
    Trainer trainer(config, world, options);
    trainer.train_step();
    std::vector<at::Tensor> before;
    for (const auto& param : trainer.table().params()) before.push_back(param->value.clone());
    try {
      trainer.train_step();
    } catch (const NonFiniteError& error) {
      ++threw;
      const std::string text = error.what();
      EXPECT_NE(text.find("step 2"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
      EXPECT_NE(text.find("samples 12, 13"), std::string::npos) << text;
    }
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(at::equal(before[i], trainer.table().params()[i]->value));
    }
  });
  EXPECT_EQ(threw, 4);
}

TEST(Trainer, ASignalEndsTheRunAfterAWholeStepOnAllRanks) {
  const Config config = load({"training.local_batch_size=2"});
  std::atomic<int> signal{0};
  std::atomic<int64_t> steps{0};
  TrainerOptions options;
  options.source = open_training_data(config);
  options.stop_signal = &signal;
  options.on_step = [&](const StepMetrics& metrics, const ParamTable&, const DeviceMesh& mesh) {
    if (mesh.rank() != 0) return;
    steps = metrics.step;
    if (metrics.step == 2) signal = 15;
  };
  run_ranks(
      4, [&](const ProcessGroup& world) { EXPECT_EQ(Trainer(config, world, options).run(), 15); });
  EXPECT_GE(steps, 3);
  EXPECT_LE(steps, 4);
}

TEST(Trainer, ClippingScalesTheStepAndNotTheReportedNorm) {
  std::vector<double> moved;
  double norm = 0;
  for (const double share : {0.0, 0.1}) {
    const std::string limit = share == 0 ? "0" : std::to_string(share * norm);
    const Config config = load({"training.max_norm=" + limit});
    TrainerOptions options;
    options.source = open_training_data(config);
    run_ranks(1, [&](const ProcessGroup& world) {
      Trainer trainer(config, world, options);
      const at::Tensor before = trainer.table().params()[0]->value.clone();
      norm = trainer.train_step().grad_norm;
      moved.push_back((trainer.table().params()[0]->value - before).norm().item<double>());
    });
  }
  EXPECT_NEAR(moved[1] / moved[0], 0.1, 1e-6);
}

TEST(ConsoleLine, KeepsTheShapeOfTheReference) {
  StepMetrics metrics;
  metrics.step = 3;
  metrics.loss = 11.824228;
  metrics.seconds = 1.52;
  metrics.lr = 1e-5;
  metrics.grad_norm = 3.214;
  metrics.tflops_per_rank = 85.31;
  EXPECT_EQ(console_line(metrics, 10),
            "{ step:[    3/   10], loss:  11.824228, per_step_time:   1520ms, lr: 1.000000e-05, "
            "grad_norm:   3.214000, throughput:  85.31T }");
}

}  // namespace
}  // namespace tessera::test
