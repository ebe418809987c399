#include "tessera/layout/pipeline_options.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

ParallelismConfig pipeline(int64_t stages, int64_t chunks, bool overlap) {
  ParallelismConfig parallelism;
  parallelism.pipeline_parallel = stages;
  parallelism.pipeline_parallel_interleave_num = chunks;
  parallelism.pipeline_parallel_overlap_b_f = overlap;
  return parallelism;
}

TEST(PipelineOptions, WithoutAPipelineAreOneStageOfOneChunk) {
  ScheduleOptions expected;
  expected.micro_batches = 3;
  EXPECT_EQ(pipeline_options(pipeline(1, 2, true), 3), expected);
}

TEST(PipelineOptions, FollowTheFile) {
  const ScheduleOptions plain = pipeline_options(pipeline(4, 1, false), 8);
  EXPECT_EQ(plain.stages, 4);
  EXPECT_EQ(plain.kind, ScheduleKind::k1F1B);
  EXPECT_EQ(schedule_name(plain), "1f1b");
  const ScheduleOptions interleaved = pipeline_options(pipeline(4, 2, false), 8);
  EXPECT_EQ(interleaved.virtual_stages(), 8);
  EXPECT_EQ(schedule_name(interleaved), "interleaved_1f1b");
  const ScheduleOptions pairs = pipeline_options(pipeline(4, 1, true), 8);
  EXPECT_TRUE(pairs.overlap_b_f);
  EXPECT_EQ(schedule_name(pairs), "interleaved_1f1b");
}

}  // namespace
}  // namespace tessera
