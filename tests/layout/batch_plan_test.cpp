#include "tessera/layout/batch_plan.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

BatchPlan plan(int64_t dp, int64_t local, int64_t global, bool keeps_batch = false) {
  Config config;
  config.training.local_batch_size = local;
  config.training.global_batch_size = global;
  if (keeps_batch) config.elastic.layouts = {{}};
  ParallelDims dims;
  dims.world = dp;
  dims.dp_shard = dp;
  return make_batch_plan(config, dims);
}

TEST(BatchPlan, MicroBatchesAreRoundedDown) {
  EXPECT_EQ(plan(1, 2, 8).micro_batches, 4);
  EXPECT_EQ(plan(8, 1, 8).micro_batches, 1);
  EXPECT_EQ(plan(4, 1, 10).micro_batches, 2);
  EXPECT_EQ(plan(4, 1, 10).effective_batch, 8);
  EXPECT_EQ(plan(3, 2, 12).effective_batch, 12);
  EXPECT_EQ(plan(8, 2, 8).micro_batches, 0);
}

TEST(BatchPlan, ABatchThatIsKeptIsRoundedUpToWholeMicroBatches) {
  for (const int64_t dp : {1, 2, 3, 5, 7, 8, 13}) {
    const BatchPlan kept = plan(dp, 2, 12, true);
    EXPECT_EQ(kept.effective_batch, 12) << dp;
    EXPECT_GE(kept.micro_batches * dp * 2, 12) << dp;
    EXPECT_LT((kept.micro_batches - 1) * dp * 2, 12) << dp;
    EXPECT_EQ(with_batch(kept, 8).effective_batch, 8) << dp;
    EXPECT_GE(with_batch(kept, 8).micro_batches * dp * 2, 8) << dp;
  }
}

}  // namespace
}  // namespace tessera
