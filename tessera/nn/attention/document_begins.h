#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/nn/layer_context.h"

namespace tessera {

/// [rows, seq_length] int64 in host memory: the place in its sample where each token's document
/// begins; undefined where every sample is one document.
at::Tensor document_begins(const LayerContext& context);

}  // namespace tessera
