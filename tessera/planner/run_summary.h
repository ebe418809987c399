#pragma once

#include <string>

#include "tessera/planner/plan.h"

namespace tessera {

/// What a run will be, in six lines: layout, batch, parameters, memory, the predicted step, the
/// predicted end. `now`: seconds since 1970. Without plan.seconds the last two say what is missing.
std::string run_summary(const Plan& plan, int64_t now);

}  // namespace tessera
