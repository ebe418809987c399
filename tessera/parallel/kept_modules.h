#pragma once

// Sub-modules of what is recomputed which do not run again themselves (recompute.exclude_op): their
// first run is kept with its graph, and the second run of what surrounds them takes its results.

#include <cstdint>
#include <map>
#include <utility>

#include "tessera/nn/module_call.h"

namespace tessera {

/// The first runs of a step that wait for their backward. One per rank and step.
struct KeptModules {
  struct Run {
    Tensors inputs;   // leaves
    Tensors outputs;  // of the graph over them
  };
  std::map<std::pair<const ModuleCall*, int64_t>, Run> runs;  // by module and micro-batch
};

/// A wrapper for a module inside of what is recomputed. In the first pass it runs the body with its
/// graph and puts it aside in StepContext::kept; in the second (LayerContext::recompute) it returns
/// the results of the first, as functions of the inputs that were made again.
Tensors kept(const ModuleCall& call, const Tensors& inputs, const LayerContext& context);

}  // namespace tessera
