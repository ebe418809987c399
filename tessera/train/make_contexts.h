#pragma once

// From the loader's plain arrays to what the layers see.

#include <vector>

#include "tessera/base/box.h"
#include "tessera/data/loader.h"
#include "tessera/nn/layer_context.h"

namespace tessera {

/// What counts in a step, as the loader says: of this rank's micro-batches, or summed over ranks.
struct StepCounts {
  int64_t labels = 0;
  int64_t next_labels = 0;  // of multi-token prediction
  int64_t tokens = 0;       // that the loader did not make up
};

StepCounts count(const std::vector<MicroBatch>& batch);

/// One context per micro-batch, in order; micro-batch indices are their places in `batch`. The
/// residual stream holds slice `tp_rank` of `tp_degree` of the tokens. `step` must outlive them.
std::vector<LayerContext> make_contexts(const std::vector<MicroBatch>& batch,
                                        const StepContext& step, int64_t tp_rank,
                                        int64_t tp_degree);

}  // namespace tessera
