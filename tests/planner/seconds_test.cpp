#include "tessera/planner/seconds/seconds_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/config/load.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/seconds/clock.h"
#include "tessera/planner/seconds/seconds_text.h"
#include "tessera/planner/seconds/work_seconds.h"
#include "tessera/schedule/make_schedule.h"
#include "tessera/schedule/schedule_formulas.h"

namespace tessera {
namespace {

Config load(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const ConfigResult result =
      load_config(std::string(TESSERA_SOURCE_DIR) + "/configs/" + name + ".yaml", overrides);
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config;
}

// Ten operations a second, messages for nothing.
Machine simple_machine() {
  Machine machine;
  machine.name = "simple";
  machine.devices = true;
  machine.overlap = true;
  machine.memory_bandwidth = 1e30;
  ComputeRates rates;
  rates.peak = rates.attention = rates.attention_back = 1e9;
  rates.products.points = {{1, 1}};
  machine.compute[DType::kFloat32] = rates;
  machine.in_node = machine.between = {"wire", 1e30, 0.0};
  return machine;
}

ClockCosts equal_passes(double forward, double backward) {
  ClockCosts costs;
  costs.pass = [=](int64_t, const Pass&, bool back) {
    SpentSeconds spent;
    spent[Spent::kProducts] = back ? backward : forward;
    return spent;
  };
  return costs;
}

TEST(Clock, EqualStagesIdleAsTheFormulaSays) {
  for (const int64_t chunks : {1, 2}) {
    for (const int64_t stages : {1, 2, 4}) {
      for (const int64_t micro_batches : {1, 3, 8}) {
        ScheduleOptions options;
        options.kind = kind_for_chunks(chunks);
        options.stages = stages;
        options.chunks = chunks;
        options.micro_batches = micro_batches;
        options.overlap_p2p = true;
        const ClockTimes times = run_clock(make_schedule(options), equal_passes(1, 2));
        const double work = 3.0 * static_cast<double>(chunks * micro_batches);
        EXPECT_NEAR(times.step, work * (1 + idle_over_ideal(options)), 1e-9);
        for (const SpentSeconds& spent : times.spent) {
          EXPECT_NEAR(spent.sum(), times.step, 1e-9);
          EXPECT_NEAR(spent.compute(), work, 1e-9);
        }
      }
    }
  }
}

TEST(Clock, RanksThatShareOneProcessorTakeAllWorkOneAfterTheOther) {
  ScheduleOptions options;
  options.stages = 4;
  options.micro_batches = 6;
  options.overlap_p2p = true;
  ClockCosts costs = equal_passes(1, 2);
  costs.sharing = [](int64_t computing) { return static_cast<double>(computing); };
  // The processor is never idle: somebody always computes.
  EXPECT_NEAR(run_clock(make_schedule(options), costs).step, 4 * 6 * 3, 1e-6);
}

TEST(Clock, MessagesBetweenStagesAreOnTheWay) {
  ScheduleOptions options;
  options.stages = 2;
  options.micro_batches = 1;
  ClockCosts costs = equal_passes(1, 2);
  costs.transfer = 0.5;
  const ClockTimes times = run_clock(make_schedule(options), costs);
  EXPECT_NEAR(times.step, 6 + 2 * 0.5, 1e-9);
}

TEST(SecondsPlan, OneRankTakesItsOperationsOverTheRate) {
  const Config config = load("minimal", {"model.compute_dtype=float32"});
  const SecondsPlan plan = plan_seconds(config, 1, simple_machine(), false);
  // What is done beyond the model's own count: attention over half the square, scores twice.
  EXPECT_GT(plan.step, 0);
  EXPECT_NEAR(plan.hfu, 1.0, 1e-6);
  EXPECT_NEAR(plan.stages.at(0).compute(), plan.step, 1e-9 * plan.step);
}

TEST(SecondsPlan, TwiceTheRanksTakeHalfTheTimeWhereMessagesAreFree) {
  const Config config = load("fsdp", {"model.compute_dtype=float32"});
  const double four = plan_seconds(config, 4, simple_machine(), false).step;
  const double eight = plan_seconds(config, 8, simple_machine(), false).step;
  EXPECT_NEAR(four / eight, 2.0, 0.02);
}

TEST(SecondsPlan, SlowMessagesShowOnTheirAxis) {
  const auto share = [](const std::string& file, Spent kind, const std::vector<std::string>& set) {
    Machine machine = simple_machine();
    machine.in_node.bandwidth = 1e7;
    const SecondsPlan plan = plan_seconds(load(file, set), 8, machine, false);
    return plan.stages.at(0)[kind] / plan.step;
  };
  EXPECT_GT(share("fsdp", Spent::kFsdp, {}), 0.05);
  EXPECT_EQ(share("fsdp", Spent::kTp, {}), 0.0);
  EXPECT_GT(share("tp", Spent::kTp, {}), 0.05);
  EXPECT_GT(share("cp_ulysses", Spent::kCp, {}), 0.01);
  EXPECT_GT(share("ep", Spent::kEp, {}), 0.01);
  EXPECT_GT(share("pp_auto", Spent::kPp, {"training.global_batch_size=4"}), 0.0);
}

TEST(SecondsPlan, RecomputationRunsForwardsAgain) {
  const auto hfu = [](const std::vector<std::string>& set) {
    const SecondsPlan plan = plan_seconds(load("fsdp", set), 8, simple_machine(), false);
    return plan.hfu / plan.mfu;
  };
  EXPECT_NEAR(hfu({"recompute.mode=full", "recompute.full_recompute_layer=[0-7]"}) / hfu({}),
              4.0 / 3.0, 0.15);
}

TEST(SecondsPlan, HostWithFewerCoresThanRanks) {
  Machine machine = simple_machine();
  machine.devices = machine.overlap = false;
  machine.cores = 2;
  machine.sharing.points = {{1, 1}, {2, 2}, {8, 8}};
  const Config config = load("fsdp", {"model.compute_dtype=float32"});
  const double one = plan_seconds(config, 1, machine, false).step;
  const double eight = plan_seconds(config, 8, machine, false).step;
  EXPECT_NEAR(eight / one, 1.0, 0.02);
}

TEST(SecondsPlan, EveryProfilePlansAStepAndItsJsonHoldsAllOfIt) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/machines/";
  for (const char* name : {"h100_sxm", "h200", "a100_sxm", "b200", "mi300x", "ascend_910b"}) {
    const Machine machine = *find_machine({folder + name + ".yaml"});
    const SecondsPlan plan = plan_seconds(load("hsdp"), 16, machine, false);
    EXPECT_GT(plan.step, 0) << name;
    EXPECT_LT(plan.mfu, 1) << name;
    const auto json = nlohmann::json::parse(to_json(plan));
    EXPECT_NEAR(json["stages"][0]["products"], plan.stages[0][Spent::kProducts], 1e-12);
    EXPECT_THAT(to_text(plan), testing::HasSubstr("not measured here"));
  }
}

TEST(WorkSeconds, AMeasuredCollectiveCountsBeforeTheLink) {
  Machine machine = simple_machine();
  machine.collectives = {{"threads", "all_gather", 4, {{{1000, 1e-3}, {1e6, 1}}}}};
  ParallelDims dims;
  dims.world = 4;
  const Config config;
  const WorkSeconds threads(machine, config, dims, false);
  EXPECT_NEAR(threads.message("all_gather", 4, 1, 1e6), 1.0, 1e-9);
  EXPECT_NEAR(threads.message("all_gather", 4, 1, 4e6), 4.0, 1e-9);
  EXPECT_LT(WorkSeconds(machine, config, dims, true).message("all_gather", 4, 1, 1e6), 1e-9);
}

TEST(WorkSeconds, GroupsThatLeaveTheirNodeTakeTheSlowerLink) {
  Machine machine = simple_machine();
  machine.node_ranks = 8;
  machine.in_node = {"near", 1e9, 0};
  machine.between = {"far", 1e8, 0};
  ParallelDims dims;
  dims.world = 64;
  const Config config;
  const WorkSeconds seconds(machine, config, dims, false);
  EXPECT_DOUBLE_EQ(seconds.message("all_gather", 8, 1, 1e9), 1.0);
  EXPECT_DOUBLE_EQ(seconds.message("all_gather", 8, 8, 1e9), 10.0);   // one a node
  EXPECT_DOUBLE_EQ(seconds.message("all_gather", 64, 1, 1e9), 1.25);  // eight ports together
  EXPECT_NEAR(seconds.message("all_to_all", 16, 1, 1.5e9), 8.0, 1e-9);
}

}  // namespace
}  // namespace tessera
