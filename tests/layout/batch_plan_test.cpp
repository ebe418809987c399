#include "tessera/layout/batch_plan.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

BatchPlan plan(int64_t dp, int64_t local, int64_t global) {
  TrainingConfig training;
  training.local_batch_size = local;
  training.global_batch_size = global;
  ParallelDims dims;
  dims.world = dp;
  dims.dp_shard = dp;
  return make_batch_plan(training, dims);
}

TEST(BatchPlan, MicroBatchesAreRoundedDown) {
  EXPECT_EQ(plan(1, 2, 8).micro_batches, 4);
  EXPECT_EQ(plan(8, 1, 8).micro_batches, 1);
  EXPECT_EQ(plan(4, 1, 10).micro_batches, 2);
  EXPECT_EQ(plan(4, 1, 10).effective_batch, 8);
  EXPECT_EQ(plan(3, 2, 12).effective_batch, 12);
  EXPECT_EQ(plan(8, 2, 8).micro_batches, 0);
}

}  // namespace
}  // namespace tessera
