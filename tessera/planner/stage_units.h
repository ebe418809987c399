#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/model_units.h"
#include "tessera/planner/plan.h"

namespace tessera {

/// The units of one pipeline stage, chunk by chunk. A stage that uses a tied embedding which lives
/// on another stage has a copy of it.
struct StageUnits {
  std::vector<ModelUnit> units;
  std::vector<size_t> chunk_of_unit;
};

/// Which layers, and which of embedding and head, each chunk of each stage holds. [pp]
std::vector<StagePlan> plan_stages(const Config& config, const ParallelDims& dims);

/// The units of each stage. [pp]
std::vector<StageUnits> assign_units(const std::vector<ModelUnit>& units,
                                     const std::vector<StagePlan>& stages);

}  // namespace tessera
