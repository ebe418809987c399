#pragma once

#include "tessera/base/dtype.h"
#include "tessera/config/model_config.h"
#include "tessera/config/param_role.h"

namespace tessera {

// The dtypes of a weight by its role. A router's selection bias is no weight: it is kept in
// compute_dtype(kRouter).

/// In which the layers use it, and in which its gradient leaves them.
DType compute_dtype(ParamRole role, const ModelConfig& model);

/// In which it is stored between steps as far as its values go: masters are rounded to it.
DType storage_dtype(ParamRole role, const ModelConfig& model);

/// In which what is frozen is kept: as the files have it (norms as always), else as it is stored.
DType frozen_dtype(ParamRole role, const ModelConfig& model);

/// Of the copy that the optimizer moves: float64 for a model that stores or computes in it, else
/// float32.
DType master_dtype(const ModelConfig& model);

}  // namespace tessera
