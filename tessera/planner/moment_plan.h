#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/model_units.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// Bytes of the state that the optimizer keeps between updates for the rank's parts of a group;
/// none where no gradient moves it.
int64_t moment_bytes(const Config& config, const ParallelDims& dims, const TensorGroup& group,
                     int64_t rank);

/// What an update with state in fewer bits needs beside.
struct OpenedMoments {
  int64_t bytes = 0;  // most that is wide at a time
  /// Elements of each message over the stage: scales of blocks that cuts divide.
  std::vector<int64_t> shared;
};
OpenedMoments plan_opened(const Config& config, const ParallelDims& dims, const StageUnits& stage,
                          int64_t rank);

}  // namespace tessera
