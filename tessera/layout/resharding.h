#pragma once

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// How long gathered weights stay and how often gradients are reduced, by
/// `reshard_after_forward_policy`. always: freed after every use. never: one gather a step.
/// default: as always without a pipeline, but the head keeps its weights from its forward to its
/// backward, which follow each other; as never with one.
struct Resharding {
  bool keep_all_step = false;  // one gather a step
  bool keep_head = false;      // the head's weights stay from its forward to its backward
  bool reduce_once = false;    // gradients stay full over the micro-batches of a step
};

Resharding resharding(const Config& config, const ParallelDims& dims);

}  // namespace tessera
