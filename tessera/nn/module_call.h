#pragma once

// Pieces of a layer on which the outside (activation checkpointing, parity) can act without the
// layer knowing.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "tessera/layout/layer_modules.h"
#include "tessera/nn/layer_context.h"
#include "tessera/nn/parameter.h"

namespace tessera {

using Tensors = std::vector<at::Tensor>;

/// A sub-module of a layer that a configuration may address. Calling it runs `body`, or `wrapper`
/// if the outside has set one; the wrapper calls `body` when it likes, also again in the backward
/// pass.
struct ModuleCall {
  using Body = std::function<Tensors(const Tensors&, const LayerContext&)>;
  using Wrapper = std::function<Tensors(const ModuleCall&, const Tensors&, const LayerContext&)>;

  LayerModule module = LayerModule::kAttention;
  /// The weights that `body` reads, also those of its own sub-modules. A function, because a seam
  /// that is replaced takes its weights with it.
  std::function<std::vector<Weight*>()> weights;
  Body body;
  Wrapper wrapper;

  Tensors operator()(const Tensors& inputs, const LayerContext& context) const {
    return wrapper ? wrapper(*this, inputs, context) : body(inputs, context);
  }
};

}  // namespace tessera
