#pragma once

#include <cstdint>

#include "tessera/config/config.h"

namespace tessera {

/// Learning rate of update `step` (from 0) of `total_steps`: reference formulas of MindFormers'
/// schedules; a pure function, so a resumed run needs no state. Where that system has none of a
/// sensible value (a stable-decay schedule without warm-up at step 0), the plateau is used.
/// Steps count, not ratios: load_config has made steps of them.
double learning_rate(const LrSchedulerConfig& schedule, int64_t total_steps, int64_t step);

}  // namespace tessera
