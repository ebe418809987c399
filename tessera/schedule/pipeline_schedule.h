#pragma once

#include <string>
#include <vector>

#include "tessera/schedule/action.h"
#include "tessera/schedule/schedule_options.h"

namespace tessera {

/// The whole step of every rank, in the order in which it runs.
struct PipelineSchedule {
  ScheduleOptions options;
  std::vector<std::vector<Action>> ranks;  // [stages]
};

/// One line a rank, "rank 0: F0@0 FS0@0 F1@0 ...", with or without transfers.
std::string format_schedule(const PipelineSchedule& schedule, bool compute_only = false);

}  // namespace tessera
