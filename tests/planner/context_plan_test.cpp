#include "tessera/planner/context_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/layout/context_grid.h"
#include "tessera/planner/plan.h"
#include "tessera/rules/derive.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Config context_parallel(int64_t cp, int64_t length, const std::string& balance = "auto") {
  Config config;
  config.parallelism.context_parallel = cp;
  config.parallelism.context_parallel_balance = balance;
  config.model.seq_length = length;
  config.train_dataset.dataloader.config.seq_length = length;
  config.training.local_batch_size = 1;
  config.training.global_batch_size = 1;
  return config;
}

Config packed(Config config) {
  config.train_dataset.dataloader.config.create_compressed_eod_mask = true;
  return config;
}

std::vector<double> pairs(const Config& config, const std::vector<int64_t>& ends) {
  return attention_pairs(config, ends);
}

double most_over_mean(const Config& config, const std::vector<int64_t>& ends) {
  ContextPlan plan;
  plan.pairs = pairs(config, ends);
  return plan.most_over_mean();
}

TEST(ContextPlan, CausalWorkIsEqualHeadTailAndNotContiguous) {
  EXPECT_THAT(pairs(context_parallel(4, 64), {64}), ElementsAre(520, 520, 520, 520));
  EXPECT_THAT(pairs(context_parallel(4, 64, "contiguous"), {64}), ElementsAre(136, 392, 648, 904));
  EXPECT_DOUBLE_EQ(most_over_mean(context_parallel(4, 4096), {4096}), 1.0);
  EXPECT_NEAR(most_over_mean(context_parallel(4, 4096, "contiguous"), {4096}), 1.75, 0.001);
}

// The causal half: no pair twice, none that the mask hides.
TEST(ContextPlan, AllRanksTogetherDoTheCausalHalf) {
  for (const char* method : {"colossal", "ulysses", "hybrid"}) {
    Config config = context_parallel(8, 64);
    config.parallelism.context_parallel_method = method;
    config.parallelism.ulysses_degree_in_cp = 4;
    const auto work = pairs(config, {64});
    EXPECT_DOUBLE_EQ(std::accumulate(work.begin(), work.end(), 0.0), 64 * 65 / 2) << method;
    EXPECT_DOUBLE_EQ(most_over_mean(config, {64}), 1.0) << method;
  }
}

TEST(ContextPlan, DocumentsOfFourAndTwelve) {
  const std::vector<int64_t> ends{4, 16};
  EXPECT_THAT(pairs(packed(context_parallel(2, 16, "contiguous")), ends), ElementsAre(20, 68));
  EXPECT_THAT(pairs(packed(context_parallel(2, 16, "head_tail")), ends), ElementsAre(52, 36));
  EXPECT_THAT(pairs(packed(context_parallel(2, 16)), ends), ElementsAre(44, 44));
}

TEST(ContextPlan, SamplesThatHeadTailDoesNotDivideAreCutInContiguousPieces) {
  EXPECT_EQ(token_balance(context_parallel(4, 60)), TokenBalance::kContiguous);
  EXPECT_EQ(token_balance(packed(context_parallel(4, 60))), TokenBalance::kByWork);
  Config hybrid = context_parallel(4, 60);
  hybrid.parallelism.context_parallel_method = "hybrid";
  hybrid.parallelism.ulysses_degree_in_cp = 2;
  EXPECT_EQ(token_balance(hybrid), TokenBalance::kHeadTail);
}

TEST(ContextPlan, IsToldInTextAndJson) {
  const auto plan = [](const Config& config) {
    Plan whole;
    whole.dims = derive_dims(config, config.parallelism.context_parallel);
    whole.context = plan_context(config, whole.dims);
    return whole;
  };
  const Plan even = plan(context_parallel(4, 64));
  EXPECT_THAT(to_text(even), HasSubstr("520 query-key pairs a rank"));
  EXPECT_THAT(to_text(even), HasSubstr("the busiest 1.00 times the mean"));
  EXPECT_THAT(to_text(even), Not(HasSubstr("documents")));
  EXPECT_THAT(to_json(even), HasSubstr("\"busiest_over_mean\": 1.0"));
  const Plan uneven = plan(context_parallel(4, 64, "contiguous"));
  EXPECT_THAT(to_text(uneven), HasSubstr("136 to 904 query-key pairs a rank"));
  EXPECT_THAT(to_text(uneven), HasSubstr("the busiest 1.74 times the mean"));
  EXPECT_THAT(to_json(uneven), HasSubstr("\"balance\": \"contiguous\""));
  EXPECT_THAT(to_text(plan(packed(context_parallel(4, 64)))),
              HasSubstr("where documents end decides"));
  EXPECT_FALSE(plan_context(context_parallel(1, 64), ParallelDims{}).has_value());
}

}  // namespace
}  // namespace tessera
