#pragma once

#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// The order of every rank, one stage (p = 1) included. Both ends of every transfer stand in one
/// global order, so that even blocking sends and receives cannot deadlock; a send stands right
/// after the computation that made it, before any other computation. A receive stands after the
/// computation that its rank does in the same column. No transfer between chunks of one rank.
/// Throws InternalError on options that contradict each other or are not positive.
PipelineSchedule make_schedule(const ScheduleOptions& options);

}  // namespace tessera
