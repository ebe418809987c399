#pragma once

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/planner/plan.h"

namespace tessera {

/// How long the data last. Reads the .idx files only; never throws for what the user wrote.
DataPlan plan_data(const Config& config, const BatchPlan& batch);

}  // namespace tessera
