#pragma once

#include <optional>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/updates/matrix_deal.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// The matrices of the stage of `rank` that its optimizer needs whole, dealt as the run deals them;
/// nothing: there are none.
std::optional<MatrixDeal> deal_matrices(const Config& config, const ParallelDims& dims,
                                        const StageUnits& stage, int64_t rank);

/// What every rank of the stage does with them in a step. [place on the stage]
std::vector<MatrixPlan> plan_matrices(const Config& config, const MatrixDeal& deal);

}  // namespace tessera
