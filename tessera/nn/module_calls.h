#pragma once

// The calls of the usual sub-modules. A call refers to the member that holds the sub-module, so
// that a seam which is replaced is found; whoever has the call must not be moved.

#include <memory>
#include <vector>

#include "tessera/nn/module_call.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// {x} -> {norm of x}.
ModuleCall norm_call(LayerModule module, std::unique_ptr<Norm>& norm);

/// {[T, in]} -> {[T, out]}.
ModuleCall linear_call(LayerModule module, std::unique_ptr<Linear>& linear);

/// {[T, in]} -> {[T, sum of out_i]}, the parts side by side.
ModuleCall stacked_call(LayerModule module, std::unique_ptr<Projections>& projections);

/// {q, k, v} -> {[T, heads, D of the values]}.
ModuleCall core_call(std::unique_ptr<CoreAttention>& core);

/// The weights of all `calls`, in their order.
std::vector<Weight*> weights_of(const std::vector<ModuleCall*>& calls);

}  // namespace tessera
