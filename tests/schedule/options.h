#pragma once

#include "tessera/schedule/schedule_options.h"

namespace tessera::testing {

/// Options of 1F1B, plain or interleaved by the number of chunks.
inline ScheduleOptions options_1f1b(int64_t stages, int64_t chunks, int64_t micro_batches,
                                    bool overlap_b_f = false) {
  ScheduleOptions options;
  options.kind = kind_for_chunks(chunks);
  options.stages = stages;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  options.overlap_b_f = overlap_b_f;
  return options;
}

inline ScheduleOptions options_gpipe(int64_t stages, int64_t chunks, int64_t micro_batches) {
  ScheduleOptions options = options_1f1b(stages, chunks, micro_batches);
  options.kind = ScheduleKind::kGPipe;
  return options;
}

}  // namespace tessera::testing
