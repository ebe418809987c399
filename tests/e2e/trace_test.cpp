// The timeline of a run: one row per rank, every call, gather, message and reduction on it.

#include "tessera/train/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "tessera/base/error.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"
#include "tests/support/json_files.h"

namespace tessera::test {
namespace {

TEST(Trace, HoldsWhatEveryRankDid) {
  const Config config =
      load_case("llama_sgd64",
                {shard(2), local_batch(2), policy("always"), "parallelism.pipeline_parallel=2",
                 "parallelism.pipeline_parallel_layers_per_stage=auto", "training.steps=2"},
                4);
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("tessera_trace_" + std::to_string(::getpid()) + ".json");
  const auto source = open_training_data(config);
  run_ranks(4, [&](const ProcessGroup& world) {
    Timeline timeline;
    TrainerOptions options;
    options.source = source;
    options.timeline = &timeline;
    Trainer trainer(config, world, options);
    trainer.run();
    write_trace(path, timeline, world);
  });
  const nlohmann::json trace = read_json(path);
  std::filesystem::remove(path);
  std::map<int, std::map<std::string, int>> counts;  // rank -> kind
  std::map<int, std::vector<std::pair<double, double>>> steps;
  for (const auto& event : trace.at("traceEvents")) {
    const int rank = event.at("tid");
    if (event.at("ph") == "M") {
      EXPECT_EQ(event.at("args").at("name"), "rank " + std::to_string(rank));
      continue;
    }
    ++counts[rank][event.at("cat")];
    const double begin = event.at("ts");
    if (event.at("name") == "step") {
      steps[rank].emplace_back(begin, begin + event.at("dur").get<double>());
    }
  }
  ASSERT_EQ(counts.size(), 4u);
  for (auto& [rank, kinds] : counts) {
    // 2 steps of 2 micro-batches; a stage holds 2 layers and one end.
    EXPECT_EQ(kinds["step"], 2);
    EXPECT_EQ(kinds["update"], 2);
    EXPECT_EQ(kinds["forward"], 12);
    EXPECT_EQ(kinds["backward"], 12);
    EXPECT_GE(kinds["gather"], 12);
    EXPECT_GE(kinds["reduce"], 12);
    EXPECT_EQ(kinds["send"], 4);
    EXPECT_GE(kinds["receive"], 4);
    ASSERT_EQ(steps[rank].size(), 2u);
    // One follows the other at once; as a double a date is known to a quarter of a microsecond.
    EXPECT_LE(steps[rank][0].second, steps[rank][1].first + 1);
  }
}

TEST(Trace, AFileThatCannotBeWrittenIsToldFirst) {
  EXPECT_THROW(check_trace_file("/nonexistent/trace.json"), ConfigError);
}

}  // namespace
}  // namespace tessera::test
