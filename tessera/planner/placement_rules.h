#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/placement.h"
#include "tessera/config/model_config.h"
#include "tessera/layout/model_spec.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// How the layout cuts a parameter of `role`, outer to inner: tp or ep first, then the axis that
/// shards its storage (storage_dim()). Expert matrices are stacked: [experts, out, in].
std::vector<AxisCut> cuts_of(ParamRole role, const ModelConfig& model, const ParallelDims& dims);

/// The same without the last cut: what a rank computes with when the weights are gathered.
std::vector<AxisCut> compute_cuts_of(ParamRole role, const ModelConfig& model,
                                     const ParallelDims& dims);

/// Elements that `rank` holds of a tensor of `shape` after `cuts`.
int64_t local_elements(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
                       const ParallelDims& dims, int64_t rank);

/// A matrix of one routed expert.
bool is_expert(ParamRole role);

}  // namespace tessera
