#include "tessera/schedule/timetable.h"

#include <algorithm>

#include "tessera/schedule/schedule_formulas.h"

namespace tessera {

Timetable::Timetable(const ScheduleOptions& o, int64_t rank)
    : rank_(rank),
      warmup_(warmup_forwards(o, rank)),
      micro_batches_(o.micro_batches),
      missing_(std::max<int64_t>(o.stages - o.micro_batches, 0)) {
  const int64_t to_last = o.stages - 1 - rank;
  // The column after the first forward of the last virtual stage.
  const int64_t turn = (o.chunks - 1) * std::max(round_sizes(o).front(), o.stages) + o.stages;
  if (o.kind == ScheduleKind::kGPipe) {
    stride_ = 1;
    first_backward_ = turn + (o.micro_batches - 1) + to_last;
  } else if (o.overlap_b_f) {
    stride_ = 1;
    first_backward_ = turn + to_last;
  } else {
    // A forward between two backwards. Of interleaved chunks, a gradient waits for the forward that
    // the next rank does between; that slack is what transfers hide in.
    const bool interleaved = o.kind == ScheduleKind::kInterleaved1F1B;
    stride_ = 2;
    first_backward_ = turn + (interleaved ? 2 : 1) * to_last;
  }
}

int64_t Timetable::forward(int64_t k) const {
  if (k < warmup_) return rank_ + k + waited(k);
  return backward(k - warmup_) - 1;
}

int64_t Timetable::backward(int64_t k) const { return first_backward_ + stride_ * (k + waited(k)); }

}  // namespace tessera
