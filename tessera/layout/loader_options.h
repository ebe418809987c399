#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/data/loader.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// How the rank at its place in `dims` reads the training data.
LoaderOptions loader_options(const Config& config, const ParallelDims& dims, const BatchPlan& plan,
                             int64_t rank);

}  // namespace tessera
