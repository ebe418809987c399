// Trainings on conversations, of which only the assistant's tokens count.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/layout/training_data.h"
#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

const std::string kMask = "model.use_attn_mask_compression=true";
const std::string kContext = "parallelism.context_parallel=2";
const std::vector<std::string> kPipeline = {"parallelism.pipeline_parallel=2",
                                            "parallelism.pipeline_parallel_layers_per_stage=auto"};

class Conversations : public testing::TestWithParam<Layout> {
 protected:
  std::vector<std::string> with_cache(std::vector<std::string> set) const {
    set.push_back("train_dataset.dataloader.config.path_to_cache=" + folder_.path().string());
    return set;
  }
  TempDir folder_;
};

TEST_P(Conversations, TrainAsTransformersDoes) {
  const Layout& layout = GetParam();
  const Config config = load_case("sft_mask64", with_cache(layout.set), layout.ranks);
  expect_matches_case(*train(config, layout.ranks, config.training.steps), "sft_mask64", 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Conversations,
    testing::Values(Layout{"one_rank", 1, {}}, Layout{"fsdp", 4, {shard(4), local_batch(2)}},
                    Layout{"tp", 2, {tp(2)}}, Layout{"pp", 2, kPipeline},
                    Layout{"cp", 2, {kContext, kMask}},
                    Layout{
                        "mixed", 8, {shard(2), tp(2), kPipeline[0], kPipeline[1], local_batch(2)}}),
    layout_name);

// The whole file as one batch: rows of one conversation, and packed ones, count the same labels
// and lose the same.
TEST_F(Conversations, PackedOnesLoseTheSame) {
  std::ifstream file(case_path("sft_mask64") / "expected_epochs.json");
  const auto expected = nlohmann::json::parse(file);
  struct Packing {
    const char* flag;
    int64_t ranks;
    std::vector<std::string> set;
  };
  for (const char* name : {"chatml", "llama3", "alpaca"}) {
    std::vector<double> sums;
    for (const auto& [flag, ranks, set] :
         {Packing{"false", 1, {}}, Packing{"pack", 1, {}}, Packing{"pack", 2, {kContext, kMask}},
          Packing{"pack", 2, {tp(2)}}}) {
      auto keys = with_cache(set);
      keys = keys +
             std::vector<std::string>{std::string("train_dataset.dataloader.packing=") + flag,
                                      std::string("train_dataset.dataloader.chat_template=") + name,
                                      "train_dataset.dataloader.seq_length=512",
                                      "model.seq_length=512",
                                      "training.global_batch_size=48",
                                      local_batch(1)};
      if (std::string(flag) == "pack") {
        const auto rows = count_samples(*training_data(load_case("sft_mask64", keys, ranks)));
        keys.push_back("training.global_batch_size=" + std::to_string(rows));
      }
      const Config config = load_case("sft_mask64", keys, ranks);
      const auto run = train(config, ranks, 1);
      const auto& step = run->steps.at(0);
      EXPECT_EQ(step.tokens, expected[name]["tokens"]) << name;
      EXPECT_NEAR(step.loss / expected[name]["loss"].get<double>(), 1.0, 1e-9) << name;
      EXPECT_NEAR(step.grad_norm / expected[name]["grad_norm"].get<double>(), 1.0, 1e-9) << name;
      sums.push_back(step.loss * static_cast<double>(step.tokens));
    }
    for (const double sum : sums) EXPECT_NEAR(sum / sums[0], 1.0, 1e-10) << name;
  }
}

}  // namespace
}  // namespace tessera::test
