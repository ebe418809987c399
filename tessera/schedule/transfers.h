#pragma once

#include <cstdint>

#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// Adds the sends and receives to lists of computations whose `column` says which of them go at the
/// same time: the output of a column is sent right after it, and its receiver takes it right after
/// its own computation of that column. Every transfer thus has one place in one global order
/// (column, forward before backward, even senders before odd ones), which both ends keep.
/// Precondition: the consumer of an output is in a later column.
void insert_transfers(PipelineSchedule& schedule);

/// Tags are below this: 2 (direction) x micro-batches x boundaries between virtual stages.
constexpr int64_t tag_count(const ScheduleOptions& options) {
  return 2 * options.micro_batches * (options.virtual_stages() - 1);
}

}  // namespace tessera
