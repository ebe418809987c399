#pragma once

// Named pieces of a layer, so that the outside (activation checkpointing, overlap) can act on them
// without the layer knowing.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/nn/layer_context.h"
#include "tessera/nn/parameter.h"

namespace tessera {

using Tensors = std::vector<at::Tensor>;

/// A sub-module of a layer under the names by which a configuration may address it. Calling it runs
/// `body`, or `wrapper` if the outside has set one; the wrapper calls `body` when it likes, also
/// again in the backward pass.
struct ModuleCall {
  using Body = std::function<Tensors(const Tensors&, const LayerContext&)>;
  using Wrapper = std::function<Tensors(const ModuleCall&, const Tensors&, const LayerContext&)>;

  /// Dotted, relative to the layer: MindFormers' name first ("self_attention.linear_qkv"), then
  /// Hugging Face's ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj").
  std::vector<std::string> names;
  /// The weights that `body` reads, also those of its own sub-modules. A function, because a seam
  /// that is replaced takes its weights with it.
  std::function<std::vector<Weight*>()> weights;
  Body body;
  Wrapper wrapper;

  Tensors operator()(const Tensors& inputs, const LayerContext& context) const {
    return wrapper ? wrapper(*this, inputs, context) : body(inputs, context);
  }
};

/// One piece of one call of a layer. Pieces run in order, each on what the one before returned;
/// what crosses between them is these tensors (and state that the pieces of one call share).
struct Segment {
  std::string name;
  std::function<Tensors(Tensors, const LayerContext&)> run;
};

}  // namespace tessera
