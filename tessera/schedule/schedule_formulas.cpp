#include "tessera/schedule/schedule_formulas.h"

#include <algorithm>

namespace tessera {

std::vector<int64_t> round_sizes(const ScheduleOptions& o) {
  const bool rounds = o.kind == ScheduleKind::kInterleaved1F1B && o.micro_batches >= o.stages;
  const int64_t count = rounds ? o.micro_batches / o.stages : 1;
  std::vector<int64_t> sizes(count, o.micro_batches / count);
  for (int64_t k = 0; k < o.micro_batches % count; ++k) ++sizes[k];
  return sizes;
}

int64_t warmup_forwards(const ScheduleOptions& o, int64_t rank) {
  const int64_t passes = o.chunks * o.micro_batches;
  if (o.kind == ScheduleKind::kGPipe) return passes;
  const bool plain = o.kind == ScheduleKind::k1F1B && !o.overlap_b_f;
  const int64_t to_last = o.stages - 1 - rank;
  const int64_t warmup = (o.chunks - 1) * round_sizes(o).front() + (plain ? to_last : 2 * to_last);
  return std::min(warmup, passes);
}

int64_t peak_live_chunks(const ScheduleOptions& o, int64_t rank) {
  const int64_t during_steady = o.overlap_b_f ? 2 : 1;  // a pair begins one and ends one
  return std::min(warmup_forwards(o, rank) + during_steady, o.chunks * o.micro_batches);
}

double idle_over_ideal(const ScheduleOptions& o) {
  const int64_t missing = std::max<int64_t>(o.stages - o.micro_batches, 0);
  const int64_t idle = o.stages - 1 + (o.chunks - 1) * missing;
  return static_cast<double>(idle) / static_cast<double>(o.chunks * o.micro_batches);
}

double idle_share(const ScheduleOptions& o) {
  const double idle = idle_over_ideal(o);
  return idle / (1 + idle);
}

}  // namespace tessera
