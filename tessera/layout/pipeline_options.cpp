#include "tessera/layout/pipeline_options.h"

namespace tessera {

ScheduleOptions pipeline_options(const ParallelismConfig& parallelism, int64_t micro_batches) {
  const bool pipelined = parallelism.pipeline_parallel > 1;
  ScheduleOptions options;
  options.stages = parallelism.pipeline_parallel;
  options.chunks = pipelined ? parallelism.pipeline_parallel_interleave_num : 1;
  options.kind = kind_for_chunks(options.chunks);
  options.micro_batches = micro_batches;
  options.overlap_p2p = parallelism.pipeline_parallel_overlap_p2p;
  options.overlap_b_f = parallelism.pipeline_parallel_overlap_b_f && pipelined;
  return options;
}

}  // namespace tessera
