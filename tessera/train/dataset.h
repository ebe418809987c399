#pragma once

#include <memory>

#include "tessera/config/config.h"
#include "tessera/data/loader.h"
#include "tessera/data/sample_source.h"
#include "tessera/layout/batch_plan.h"

namespace tessera {

/// The order of training samples that the file describes. Throws ConfigError.
std::shared_ptr<const SampleSource> open_training_data(const Config& config);

/// How this batch and cp rank reads it. `dims` and `rank` give the coordinates.
LoaderOptions loader_options(const Config& config, const ParallelDims& dims, const BatchPlan& plan,
                             int64_t rank);

}  // namespace tessera
