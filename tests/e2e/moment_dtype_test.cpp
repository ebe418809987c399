// optimizer.moment_dtype: bytes as planned, the same run on any number of ranks, checkpoints that
// go on bit for bit and convert.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/planner/plan.h"
#include "tessera/storage/manifest.h"
#include "tessera/train/parity/parity.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

std::string moments(const std::string& type) { return "optimizer.moment_dtype=" + type; }

// In float32, one sequence at a time, so that gradients are added in one order on all layouts.
Config config_of(const Layout& layout, const Set& more) {
  return load_case("llama_adamw32", Set{"training.steps=12", local_batch(1)} + layout.set + more,
                   layout.ranks);
}

const Layout kOne{"one", 1, {}};
const Layout kShard8{"shard8", 8, {shard(8)}};
const Layout kTp2{"tp2", 2, {shard(-1), tp(2)}};

class MomentTypes : public testing::TestWithParam<const char*> {};

TEST_P(MomentTypes, GiveTheSameRunOnEightRanks) {
  const auto one = run_until(config_of(kOne, {moments(GetParam())}), 1, 12);
  const auto eight = run_until(config_of(kShard8, {moments(GetParam())}), 8, 12);
  for (size_t i = 0; i < one->steps.size(); ++i) {
    EXPECT_EQ(one->steps[i].loss, eight->steps[i].loss) << "step " << i + 1;
  }
  for (const auto& [name, value] : one->values) {
    EXPECT_TRUE(at::equal(eight->values.at(name), value)) << name;
  }
}

TEST_P(MomentTypes, TrainAsFloat32Does) {
  const auto wide = run_until(config_of(kOne, {}), 1, 12);
  const auto narrow = run_until(config_of(kOne, {moments(GetParam())}), 1, 12);
  EXPECT_NE(wide->steps.back().loss, narrow->steps.back().loss);
  EXPECT_NEAR(narrow->steps.back().loss, wide->steps.back().loss, 5e-3 * wide->steps.back().loss);
}

TEST_P(MomentTypes, TakeTheBytesOfThePlan) {
  const int64_t wide = make_plan(config_of(kOne, {}), 1).memory[0].moments;
  EXPECT_LT(make_plan(config_of(kOne, {moments(GetParam())}), 1).memory[0].moments, wide * 6 / 10);
  for (const Layout& layout : {kOne, kShard8, kTp2}) {
    const Config config = config_of(layout, {moments(GetParam())});
    const Plan plan = make_plan(config, layout.ranks);
    const std::vector<int64_t> held = measure_memory(config, layout.ranks).persistent;
    for (size_t rank = 0; rank < held.size(); ++rank) {
      EXPECT_EQ(held[rank], plan.memory[rank].weights + plan.memory[rank].moments)
          << layout.name << " rank " << rank;
    }
  }
}

// Saved as it is kept: the run goes on bit for bit, in any layout.
TEST_P(MomentTypes, ResumeBitForBit) {
  const TempDir folder;
  const std::string path = folder.path().string();
  const Set type{moments(GetParam())};
  run_until(config_of(kShard8, type + Set{"checkpoint.enable_save=true",
                                          "checkpoint.save_path='" + path + "'"}),
            8, 5);
  const Manifest manifest = read_manifest(folder.path() / "iteration_00000005");
  EXPECT_EQ(manifest.moment_dtype, GetParam());
  const auto whole = run_until(config_of(kOne, type), 1, 8);
  for (const bool balanced : {false, true}) {
    for (const Layout& layout : {kOne, kShard8}) {
      const auto rest =
          run_until(config_of(layout, type + Set{"checkpoint.load_path='" + path + "'",
                                                 "checkpoint.no_load_optim=false",
                                                 balanced ? "checkpoint.load_balanced=true"
                                                          : "checkpoint.load_balanced=false"}),
                    layout.ranks, 8);
      for (const auto& [name, value] : whole->values) {
        EXPECT_TRUE(at::equal(rest->values.at(name), value)) << name << " " << layout.name;
      }
    }
  }
}

// From and to every other type: said, and near the run that was not converted.
TEST_P(MomentTypes, AreConverted) {
  const auto whole = run_until(config_of(kOne, {}), 1, 8);
  for (const char* other : {"float32", "bfloat16", "int8"}) {
    if (std::string(other) == GetParam()) continue;
    const TempDir folder;
    const std::string path = folder.path().string();
    run_until(config_of(kTp2, {moments(other), "checkpoint.enable_save=true",
                               "checkpoint.save_path='" + path + "'"}),
              2, 5);
    testing::internal::CaptureStderr();
    const auto rest =
        run_until(config_of(kShard8, {moments(GetParam()), "checkpoint.load_path='" + path + "'",
                                      "checkpoint.no_load_optim=false"}),
                  8, 8);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("moments are converted from " + std::string(other) + " to " + GetParam()),
              std::string::npos)
        << said;
    const double loss = whole->steps.back().loss;
    EXPECT_NEAR(rest->steps.back().loss, loss, 5e-3 * loss) << other;
  }
}

TEST_P(MomentTypes, ParityUsesFloat32AndSaysSo) {
  ParityOptions options;
  options.ranks = 2;
  options.steps = 2;
  options.dtype = DType::kFloat64;
  const ParityReport report = run_parity(config_of(kTp2, {moments(GetParam())}), options);
  EXPECT_TRUE(report.passed()) << parity_text(report);
  EXPECT_NE(parity_text(report).find(std::string("not in ") + GetParam()), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Short, MomentTypes, testing::Values("bfloat16", "int8"),
                         [](const auto& info) { return std::string(info.param); });

// Ascending is descending with gradients of the other sign.
TEST(Maximize, LossGrows) {
  const auto up = run_until(config_of(kOne, {"optimizer.maximize=true"}), 1, 6);
  EXPECT_GT(up->steps.back().loss, up->steps.front().loss);
  const auto down = run_until(config_of(kOne, {}), 1, 6);
  EXPECT_LT(down->steps.back().loss, down->steps.front().loss);
}

TEST(AmsGrad, IsSavedAndPlanned) {
  const TempDir folder;
  const std::string path = folder.path().string();
  const Set set{"optimizer.amsgrad=true"};
  const auto whole = run_until(config_of(kTp2, set), 2, 5);
  run_until(config_of(kTp2, set + Set{"checkpoint.enable_save=true",
                                      "checkpoint.save_path='" + path + "'"}),
            2, 3);
  const auto rest = run_until(config_of(kTp2, set + Set{"checkpoint.load_path='" + path + "'",
                                                        "checkpoint.no_load_optim=false"}),
                              2, 5);
  for (const auto& [name, value] : whole->values) {
    EXPECT_TRUE(at::equal(rest->values.at(name), value)) << name;
  }
  const Config config = config_of(kTp2, set);
  const Plan plan = make_plan(config, 2);
  EXPECT_EQ(measure_memory(config, 2).persistent[0],
            plan.memory[0].weights + plan.memory[0].moments);
}

}  // namespace
}  // namespace tessera::test
