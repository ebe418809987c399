#pragma once

#include "tessera/base/dtype.h"
#include "tessera/config/model_config.h"

namespace tessera {

/// In which masters and main gradients are kept: float64 for a model that stores or computes in it,
/// else float32.
DType master_dtype(const ModelConfig& model);

}  // namespace tessera
