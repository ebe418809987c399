#pragma once

#include <cstdint>

#include "tessera/schedule/schedule_options.h"

namespace tessera {

/// When one rank runs its k-th forward and backward. Time is counted in columns; in one column
/// every rank does at most one computation (or pair), and what a column makes is there in the next
/// one. The ranks stand to each other in this way whatever a forward and a backward cost.
class Timetable {
 public:
  Timetable(const ScheduleOptions& options, int64_t rank);

  /// Column of the k-th forward. The forwards of the warm-up come one after the other; later ones
  /// go right before a backward. With overlap_b_f that is the column of the backward before: a
  /// pair.
  int64_t forward(int64_t k) const;

  /// Column of the k-th backward.
  int64_t backward(int64_t k) const;

 private:
  // With fewer micro-batches than ranks, a chunk waits until the one before it came round.
  int64_t waited(int64_t k) const { return k / micro_batches_ * missing_; }

  int64_t rank_;
  int64_t warmup_;          // forwards, see warmup_forwards()
  int64_t stride_;          // columns from a backward to the next
  int64_t first_backward_;  // column
  int64_t micro_batches_;
  int64_t missing_;  // micro-batches to one a rank
};

}  // namespace tessera
