#pragma once

#include "tessera/config/model_config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Marks every part of every weight of the decoder with its placement (layout/placement.h), by its
/// role alone: also a weight that nobody thought of here is held and summed right. Call it when all
/// seams are replaced.
void place_weights(Decoder& decoder, const ModelConfig& model, const ParallelDims& dims);

}  // namespace tessera
