#include "tessera/planner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/config/load.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/search/bounds.h"
#include "tessera/planner/search/elastic_plan.h"
#include "tessera/planner/search/layout_space.h"
#include "tessera/planner/search/search_text.h"

namespace tessera {
namespace {

using testing::HasSubstr;

Config load(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const ConfigResult result =
      load_config(std::string(TESSERA_SOURCE_DIR) + "/configs/" + name + ".yaml", overrides);
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config;
}

Machine profile(const std::string& name) {
  return *find_machine({std::string(TESSERA_SOURCE_DIR) + "/machines/" + name + ".yaml"});
}

std::vector<LayoutChoice> all_choices(const Config& config, int64_t world) {
  const LayoutSpace space(config, world, 8);
  std::vector<LayoutChoice> all;
  for (const LayoutChoice& grid : space.grids()) {
    for (const LayoutChoice& expert : space.experts()) {
      for (const int64_t local : space.local_batches()) {
        for (const LayoutChoice& choice : space.with(grid, expert, local)) all.push_back(choice);
      }
    }
  }
  return all;
}

double peak_of(const Config& config, int64_t world) {
  int64_t peak = 0;
  for (const MemoryPlan& memory : make_plan(config, world, false, DataPlan{}).memory) {
    peak = std::max(peak, memory.peak);
  }
  return static_cast<double>(peak);
}

// The heart of the search: no bound is above what the full plan says.
void expect_bounds_hold(const Config& config, int64_t world, const Machine& machine, size_t every) {
  SearchOptions options;
  options.world = world;
  LayoutBounds bounds(config, machine, options);
  const std::vector<LayoutChoice> all = all_choices(config, world);
  ASSERT_GT(all.size(), 20u);
  int looked_at = 0;
  for (size_t i = 0; i < all.size(); i += every) {
    const Config made = found_config(config, all[i], machine);
    if (!broken_rule(made, world).empty()) continue;
    const LayoutBound bound = bounds.of(all[i]);
    const SecondsPlan seconds = plan_seconds(made, world, machine, false);
    EXPECT_LE(bound.seconds, seconds.step * (1 + 1e-9)) << to_text(all[i]);
    EXPECT_LE(bound.memory, peak_of(made, world)) << to_text(all[i]);
    LayoutChoice any = all[i];
    EXPECT_LE(bounds.seconds_of(any), seconds.step * (1 + 1e-9)) << to_text(all[i]);
    any.ep = 0;
    EXPECT_LE(bounds.seconds_of(any), seconds.step * (1 + 1e-9)) << to_text(all[i]);
    ++looked_at;
  }
  EXPECT_GT(looked_at, 15);
}

TEST(LayoutBounds, AreNeverAboveTheFullPlanOfDenseModels) {
  expect_bounds_hold(load("hsdp", {"training.global_batch_size=32"}), 8, profile("h100_sxm"), 17);
}

TEST(LayoutBounds, AreNeverAboveTheFullPlanOfExperts) {
  expect_bounds_hold(load("ep", {"training.global_batch_size=16"}), 8, profile("a100_sxm"), 23);
}

TEST(LayoutBounds, AreNeverAboveTheFullPlanOfRanksThatShareCores) {
  Machine machine = profile("h100_sxm");
  machine.devices = machine.overlap = false;
  machine.cores = 2;
  machine.sharing.points = {{1, 1}, {2, 1.8}, {4, 4.2}, {8, 9}};
  expect_bounds_hold(load("fsdp", {"training.global_batch_size=16"}), 4, machine, 7);
}

TEST(Search, FindsWhatTryingEverythingFinds) {
  const Config config = load("ep", {"training.global_batch_size=8"});
  const Machine machine = profile("a100_sxm");
  SearchOptions options;
  options.world = 4;
  const SearchResult result = search_layouts(config, machine, options);
  double best = 1e300;
  for (const LayoutChoice& choice : all_choices(config, options.world)) {
    const Config made = found_config(config, choice, machine);
    if (!broken_rule(made, options.world).empty()) continue;
    best = std::min(best, plan_seconds(made, options.world, machine, false).step);
  }
  ASSERT_FALSE(result.best.empty());
  EXPECT_NEAR(result.best.front().seconds.step, best, 1e-12 * best);
  EXPECT_GT(result.bounded, 0);
}

TEST(Search, MemoryIsKeptAndTheFrontNeedsLessForMoreTime) {
  const Config config = load("hsdp", {"training.global_batch_size=64"});
  const Machine machine = profile("h100_sxm");
  SearchOptions options;
  options.world = 8;
  const SearchResult free = search_layouts(config, machine, options);
  options.memory = 0.7 * free.best.front().memory;
  const SearchResult tight = search_layouts(config, machine, options);
  EXPECT_LE(tight.best.front().memory, options.memory);
  EXPECT_GE(tight.best.front().seconds.step, free.best.front().seconds.step);
  for (size_t i = 1; i < free.front.size(); ++i) {
    EXPECT_LT(free.front[i].memory, free.front[i - 1].memory);
    EXPECT_GE(free.front[i].seconds.step, free.front[i - 1].seconds.step);
  }
  const Config written = found_config(config, tight.best.front().choice, machine);
  EXPECT_NEAR(peak_of(written, 8), tight.best.front().memory, 1.0);
}

TEST(Search, WithoutALayoutThatFitsTheMemoryAndTheChangeAreNamed) {
  SearchOptions options;
  options.world = 8;
  options.memory = 1e6;
  try {
    search_layouts(load("hsdp"), profile("h100_sxm"), options);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("smallest change: --memory"));
  }
}

TEST(Search, ABatchThatNoSplitDividesIsNamed) {
  SearchOptions options;
  options.world = 11;
  try {
    search_layouts(load("hsdp", {"training.global_batch_size=3"}), profile("h100_sxm"), options);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("global_batch_size"));
  }
}

TEST(Search, FewerRanksRunTheLargestWorldThatIsLegal) {
  const Config config = load("hsdp", {"training.global_batch_size=64"});
  SearchOptions options;
  options.world = 8;
  const auto steps = plan_elastic(config, profile("h100_sxm"), options, 4);
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[0].used, 8);
  for (const ElasticStep& step : steps) EXPECT_LE(step.used, step.left);
  EXPECT_GE(steps.back().found.seconds.step, steps.front().found.seconds.step);
}

TEST(Search, BytesOfAFlag) {
  EXPECT_DOUBLE_EQ(bytes_of_flag("--memory", "80GiB"), 80.0 * 1073741824.0);
  EXPECT_DOUBLE_EQ(bytes_of_flag("--memory", "8e10"), 8e10);
  for (const char* wrong : {"80Gi", "-1GB", "", "nanGB", "GB"}) {
    EXPECT_THROW(bytes_of_flag("--memory", wrong), ConfigError) << wrong;
  }
}

}  // namespace
}  // namespace tessera
