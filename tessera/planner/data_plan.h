#pragma once

#include <optional>

#include "tessera/config/config.h"
#include "tessera/data/sample_source.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/planner/plan.h"

namespace tessera {

/// The training data that the file describes, as open_dataset takes it. None when it names none.
/// Throws ConfigError for a path list that is no mixture.
std::optional<DatasetOptions> training_data(const Config& config);

/// How long the data last. Reads the .idx files only; never throws for what the user wrote.
DataPlan plan_data(const Config& config, const BatchPlan& batch);

}  // namespace tessera
