#pragma once

#include <optional>
#include <string>

#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// Proves a schedule, or says in one line what is wrong with it (rank, position, action):
/// - every forward and backward of every chunk and micro-batch runs once, on the rank that has it;
/// - each computation has its input by then: received before it on the same rank, or made there;
/// - each output that another rank needs is sent once, after it was made, and received once, with
///   the right peer and one tag of its own;
/// - it ends, whether sends wait for their receive or not;
/// - no rank holds more live chunks than peak_live_chunks().
std::optional<std::string> validate_schedule(const PipelineSchedule& schedule);

}  // namespace tessera
