#pragma once

// From the loader's plain arrays to what the layers see.

#include <vector>

#include "tessera/data/loader.h"
#include "tessera/nn/layer_context.h"

namespace tessera {

/// Labels that count, over this rank's micro-batches.
int64_t unmasked_tokens(const std::vector<MicroBatch>& batch);

/// The same of the labels one token later, for multi-token prediction.
int64_t next_unmasked_tokens(const std::vector<MicroBatch>& batch);

/// Positions that the loader did not make up, over this rank's micro-batches.
int64_t real_positions(const std::vector<MicroBatch>& batch);

/// What contexts need beside the batch.
struct ContextOptions {
  int64_t step = 0;
  uint64_t seed = 0;
  double loss_scale = 1.0;       // 1 / unmasked tokens of the global batch
  double sample_scale = 1.0;     // 1 / its samples
  double position_scale = 1.0;   // 1 / its positions that the loader did not make up
  double next_loss_scale = 1.0;  // weight of multi-token prediction / its unmasked tokens
  at::Device device = at::kCPU;  // of the rank
  Timeline* timeline = nullptr;  // of the rank
  int64_t tp_rank = 0;           // which slice of the tokens the residual stream holds
  int64_t tp_degree = 1;
};

/// One context per micro-batch, in order; micro-batch indices are their places in `batch`.
/// `sinks` must outlive the contexts.
std::vector<LayerContext> make_contexts(const std::vector<MicroBatch>& batch,
                                        const ContextOptions& options, Sinks* sinks);

}  // namespace tessera
