#pragma once

// Activations that are made again instead of being kept (Chen et al. 2016, arXiv 1604.06174), for
// single sub-modules. A layer as a whole is Call::recompute, see model_chunk.h.

#include "tessera/layout/recompute_plan.h"
#include "tessera/models/decoder.h"

namespace tessera {

/// Sets the wrapper of every sub-module that `plan` selects and that is not inside one: its inputs
/// are kept, its results run again for the backward pass; and of those that `plan` keeps inside of
/// what runs again. After the seams were replaced.
void activation_checkpoint(Decoder& decoder, const RecomputePlan& plan);

/// Runs the body of `call` without keeping its graph. In the backward pass it runs once more, with
/// LayerContext::recompute set, and is differentiated with respect to inputs and weights. Inputs
/// must not be overwritten in between.
Tensors checkpointed(const ModuleCall& call, const Tensors& inputs, const LayerContext& context);

}  // namespace tessera
