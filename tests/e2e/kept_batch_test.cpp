// elastic.layouts: an update has exactly global_batch_size samples on every layout. What the last
// micro-batches lack is padding, which changes no loss, no norm and no count.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/near_rel.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

const Set kKept = {"elastic.layouts=[{}]", "training.global_batch_size=8", local_batch(1),
                   "training.steps=6"};
constexpr const char* kTp2 = "parallelism.tensor_parallel=2";
constexpr const char* kEp2 = "parallelism.expert_parallel=2";

void expect_same_steps(const std::vector<StepMetrics>& got, const std::vector<StepMetrics>& whole,
                       size_t first) {
  ASSERT_EQ(got.size() + first, whole.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const StepMetrics& expected = whole[first + i];
    EXPECT_NEAR_REL(got[i].loss, expected.loss, 1e-10) << "step " << first + i;
    EXPECT_NEAR_REL(got[i].grad_norm, expected.grad_norm, 1e-9) << "step " << first + i;
    EXPECT_EQ(got[i].samples, expected.samples);
    EXPECT_EQ(got[i].batch, 8);
    EXPECT_EQ(got[i].tokens, expected.tokens);
  }
}

struct Kept {
  std::string name;
  std::string file;
  Layout layout;
};

class KeptBatch : public testing::TestWithParam<Kept> {};

TEST_P(KeptBatch, ThatRanksDoNotDivideTrainsAlike) {
  const auto& [name, file, layout] = GetParam();
  const auto alone = run_until(load_case(file, kKept, 1), 1, 6);
  const auto cut = run_until(load_case(file, kKept + layout.set, layout.ranks), layout.ranks, 6);
  expect_same_steps(cut->steps, alone->steps, 0);
}

const std::vector<Kept> kCases = {
    {"dense_shard3", "llama_sgd64", {"", 3, {shard(3)}}},
    {"dense_shard5", "llama_sgd64", {"", 5, {shard(5)}}},
    {"dense_replicas", "llama_sgd64", {"", 6, {shard(2)}}},
    {"documents_balanced",
     "qwen3_eod64",
     {"", 3, {shard(3), "train_dataset.balance_enabled=true"}}},
    {"dense_stages",
     "llama_sgd64",
     {"",
      6,
      {"parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_layers_per_stage=auto",
       shard(3)}}},
    {"experts_shard3", "qwen3_moe64", {"", 3, {shard(3)}}},
    {"experts_more_ranks_than_samples", "qwen3_moe64", {"", 10, {shard(10)}}},
    {"experts_tp2_ep2", "qwen3_moe64", {"", 6, {shard(3), kTp2, kEp2}}},
    {"balance_loss_shard3", "qwen3_moe_aux64", {"", 3, {shard(3)}}},
    {"next_tokens_shard3", "deepseek_v3_64", {"", 3, {shard(3)}}},
};
INSTANTIATE_TEST_SUITE_P(Layouts, KeptBatch, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// Four ranks, then three, then two replicas of one, then four again.
TEST(FewerRanksRun, HasTheLossesOfTheUndisturbedOne) {
  const Set dropout = {"model.hidden_dropout=0.1"};
  const auto whole = run_until(load_case("mixtral_64", kKept + dropout + Set{shard(4)}, 4), 4, 6);
  const TempDir folder;
  const std::string path = "'" + folder.path().string() + "'";
  const Set saving = kKept + dropout +
                     Set{"checkpoint.enable_save=true", "checkpoint.no_load_optim=false",
                         "checkpoint.save_path=" + path};
  struct Part {
    int64_t ranks, shards, last;
  };
  size_t done = 0;
  for (const Part& part : {Part{4, 4, 2}, Part{3, 3, 3}, Part{2, 1, 5}, Part{4, 4, 6}}) {
    Set set = saving + Set{shard(part.shards)};
    if (done > 0) set.push_back("checkpoint.load_path=" + path);
    const auto run = run_until(load_case("mixtral_64", set, part.ranks), part.ranks, part.last);
    auto upto = whole->steps;
    upto.resize(static_cast<size_t>(part.last));
    expect_same_steps(run->steps, upto, done);
    done = static_cast<size_t>(part.last);
  }
}

}  // namespace
}  // namespace tessera::test
