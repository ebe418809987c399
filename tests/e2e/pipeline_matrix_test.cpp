// Twelve layers on one to four stages, one to three chunks, one to nine micro-batches, each against
// one rank; uneven stages; how many micro-batches are alive.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

bool whole_matrix() {
  const char* matrix = std::getenv("TESSERA_MATRIX");
  return matrix != nullptr && std::string(matrix) == "full";
}

Config small(int64_t layers, int64_t micro_batches, const std::vector<std::string>& set,
             int64_t ranks) {
  std::vector<std::string> all;
  for (const char* value :
       {"checkpoint.load_path=''", "model.hidden_size=32", "model.intermediate_size=64",
        "model.head_dim=8", "training.steps=2", "training.local_batch_size=1"}) {
    all.emplace_back(value);
  }
  all.push_back("model.num_hidden_layers=" + std::to_string(layers));
  all.push_back("training.global_batch_size=" + std::to_string(micro_batches));
  all.insert(all.end(), set.begin(), set.end());
  return load_case("qwen3_tied64", all, ranks);
}

std::vector<std::string> stages(int64_t p, int64_t v, const std::string& placement = "auto") {
  std::vector<std::string> set;
  set.push_back("parallelism.pipeline_parallel=" + std::to_string(p));
  set.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(v));
  set.push_back("parallelism.pipeline_parallel_layers_per_stage=" + placement);
  return set;
}

// As even as it gets.
std::string placement(int64_t layers, int64_t p, int64_t v) {
  if (layers % (p * v) == 0) return "auto";
  std::string list;
  for (const std::string& stage : balanced_layers(layers, p, v)) {
    list.append(list.empty() ? "[\"" : ", \"").append(stage).append("\"");
  }
  return list + "]";
}

TEST(PipelineMatrix, EveryShapeEqualsOneRank) {
  for (int64_t m = 1; m <= 9; ++m) {
    const auto reference = train(small(12, m, {}, 1), 1, 2);
    for (int64_t p = 2; p <= 4; ++p) {
      for (int64_t v = 1; v <= 3; ++v) {
        // In the short form every pair of (p, v), (p, m) and (v, m) occurs once.
        if (!whole_matrix() && (m - 1) % 3 != (p + v) % 3) continue;
        SCOPED_TRACE(testing::Message() << "p " << p << " v " << v << " m " << m);
        std::vector<std::string> set = stages(p, v, placement(12, p, v));
        if ((p + m) % 2 == 0) set.emplace_back("parallelism.pipeline_parallel_overlap_p2p=true");
        if ((v + m) % 2 == 0) set.emplace_back("parallelism.pipeline_parallel_overlap_b_f=true");
        expect_same_training(*train(small(12, m, set, p), p, 2), *reference, 1e-10);
      }
    }
  }
}

TEST(PipelineMatrix, UnevenStagesEqualOneRank) {
  const auto reference = train(small(10, 5, {}, 1), 1, 2);
  for (const char* placement : {R"(["0-1, 4-8", "2-3, 9"])", R"(["0-2, 5-6", "3-4, 7-9"])"}) {
    SCOPED_TRACE(placement);
    expect_same_training(*train(small(10, 5, stages(2, 2, placement), 2), 2, 2), *reference, 1e-10);
  }
}

TEST(PipelineMatrix, OverlapChangesNoBit) {
  const auto plain = train(small(12, 6, stages(2, 2), 2), 2, 2);
  for (const char* flag : {"overlap_p2p", "overlap_b_f"}) {
    std::vector<std::string> set = stages(2, 2);
    set.push_back("parallelism.pipeline_parallel_" + std::string(flag) + "=true");
    expect_identical_training(*train(small(12, 6, set, 2), 2, 2), *plain);
  }
}

// Finished micro-batches are freed at once.
TEST(PipelineMatrix, LiveMicroBatchesAreTheScheduleAndNeverMore) {
  struct Case {
    int64_t v;
    bool overlap_b_f;
    std::vector<int64_t> most;
  };
  for (const Case& c : {Case{1, false, {4, 3, 2, 1}}, Case{2, false, {11, 9, 7, 5}},
                        Case{1, true, {8, 6, 4, 2}}, Case{2, true, {12, 10, 8, 6}}}) {
    std::vector<std::string> set = stages(4, c.v);
    if (c.overlap_b_f) set.emplace_back("parallelism.pipeline_parallel_overlap_b_f=true");
    const Config config = small(8, 8, set, 4);
    TrainerOptions options;
    options.source = open_training_data(config);
    run_ranks(4, [&](const ProcessGroup& world) {
      Trainer trainer(config, world, options);
      trainer.train_step();
      const int64_t most = c.most[static_cast<size_t>(world.rank())];
      const int64_t seen = trainer.pipeline().peak_live();
      if (c.overlap_b_f) {
        EXPECT_LE(seen, most);
      } else {
        EXPECT_EQ(seen, most);
      }
    });
  }
}

}  // namespace
}  // namespace tessera::test
