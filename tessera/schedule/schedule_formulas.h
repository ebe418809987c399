#pragma once

#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule_options.h"

namespace tessera {

// Closed forms of the orders that make_schedule builds. p stages, v chunks, m micro-batches.

/// Sizes of the rounds in which the chunks take turns, one after the other: a round runs all its
/// micro-batches through chunk 0, then through chunk 1, ... At least p micro-batches each (so m
/// need not be a multiple of p), or one round of m where m < p. One round for k1F1B and kGPipe.
std::vector<int64_t> round_sizes(const ScheduleOptions& options);

/// Forwards of `rank` before its first backward, but for the one that goes right before it.
int64_t warmup_forwards(const ScheduleOptions& options, int64_t rank);

/// Most (chunk, micro-batch) pairs of `rank` whose forward has begun and whose backward has not
/// ended: what a rank's activation memory is multiplied by.
int64_t peak_live_chunks(const ScheduleOptions& options, int64_t rank);

/// Idle time of a rank over its working time, for chunks of equal cost and transfers of none:
/// (p-1) / (v m) for m >= p, (p-1 + (v-1)(p-m)) / (v m) for m < p. Independent of the ratio of
/// backward to forward, and the same for every kind and for overlap_b_f.
double idle_over_ideal(const ScheduleOptions& options);

/// Idle time over the time of the step: x / (1 + x) for x = idle_over_ideal().
double idle_share(const ScheduleOptions& options);

}  // namespace tessera
