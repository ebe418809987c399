#pragma once

#include <functional>
#include <vector>

#include "tessera/planner/seconds/spent.h"
#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// What the clock asks.
struct ClockCosts {
  /// Seconds of a pass of a rank that has its processor for itself.
  std::function<SpentSeconds(int64_t rank, const Pass& pass, bool backward)> pass;
  double transfer = 0.0;  // of one message between two stages
  /// How much slower a rank computes while `ranks` of the pipeline compute; empty: not at all.
  std::function<double(int64_t ranks)> sharing;
  bool overlap = false;  // messages travel while a rank computes
};

/// One step of the schedule by the clock.
struct ClockTimes {
  double step = 0.0;                // when the last rank is through
  std::vector<SpentSeconds> spent;  // [stages] sums to `step`
};

/// Runs each rank's list of actions, event by event. A pass computes, then waits for its messages;
/// a pair of passes waits for what the other one does not hide. A message is there `transfer` after
/// both ends came to it; with overlap_p2p only the computation that needs it waits. Throws
/// InternalError on a schedule that does not end.
ClockTimes run_clock(const PipelineSchedule& schedule, const ClockCosts& costs);

}  // namespace tessera
