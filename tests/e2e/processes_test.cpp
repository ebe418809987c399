// The page's command, with real workers: ranks as processes train the same model as one rank.

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/near_rel.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

class Processes : public testing::TestWithParam<Layout> {};

TEST_P(Processes, TrainAsOneRank) {
  const Layout& layout = GetParam();
  const TempDir folder;
  const std::string workers = std::to_string(layout.ranks);
  const std::string port = std::to_string(20000 + (getpid() * 7 + layout.ranks) % 20000);
  std::vector<std::string> words{"--worker_num=" + workers,
                                 "--local_worker_num=" + workers,
                                 "--master_port=" + port,
                                 "--join=True",
                                 "--log_dir=" + folder.path().string(),
                                 "run_mindformer.py",
                                 "--config",
                                 (case_path("llama_sgd64") / "config.yaml").string(),
                                 "--mode",
                                 "1",
                                 "--set",
                                 "output_dir=" + (folder / "output").string()};
  for (const std::string& value : layout.set) {
    words.emplace_back("--set");
    words.push_back(value);
  }
  const ProgramResult result = run_program("msrun", words, {"OMP_NUM_THREADS=1"});
  ASSERT_EQ(result.code, 0) << result.output << result.errors;
  const auto steps = read_json_lines(folder / "output" / "metrics.jsonl");
  const RunRecord& reference = one_rank("llama_sgd64");
  ASSERT_EQ(steps.size(), reference.steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR_REL(steps[i].at("loss").get<double>(), reference.steps[i].loss, 1e-10);
    EXPECT_NEAR_REL(steps[i].at("grad_norm").get<double>(), reference.steps[i].grad_norm, 1e-10);
  }
}

const std::string kPipeline = "parallelism.pipeline_parallel=2";
const std::string kAuto = "parallelism.pipeline_parallel_layers_per_stage=auto";
const std::string kContext = "parallelism.context_parallel=2";
const std::string kRing = "parallelism.context_parallel_exchange=ring";
const std::string kMask = "model.use_attn_mask_compression=true";

INSTANTIATE_TEST_SUITE_P(
    Layouts, Processes,
    testing::Values(
        Layout{"shard4", 4, {local_batch(2)}}, Layout{"shard8", 8, {local_batch(1)}},
        Layout{"tp2_shard2", 4, {tp(2), local_batch(1)}},
        Layout{"pp2_cp2_ring", 4, {kPipeline, kAuto, kContext, kRing, kMask, local_batch(2)}}),
    layout_name);

}  // namespace
}  // namespace tessera::test
