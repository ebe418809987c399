#pragma once

#include <string>

#include "tessera/schedule/pipeline_schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera {

/// The order as a table: a row a rank, a column for what the ranks do at the same time, "." where a
/// rank waits. Broken into blocks of at most `width` characters.
std::string schedule_table(const PipelineSchedule& schedule, int64_t width = 100);

/// A timeline as a standalone SVG file: a row a rank, forwards and backwards to scale and numbered
/// by micro-batch, a shade a chunk, idle share and most live chunks beside each row. `title` is
/// plain text.
std::string schedule_svg(const PipelineSchedule& schedule, const Simulation& simulation,
                         const std::string& title);

}  // namespace tessera
