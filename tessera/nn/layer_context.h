#pragma once

// What a layer may know about the tokens in front of it, and where it may write on the side.
// Activations are flat, [tokens, hidden]: the rank's part of (rows x sequence).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/base/timeline.h"

namespace tessera {

/// What layers put aside for the log, keyed by (layer, micro-batch), detached. One per rank and
/// step. (Losses that take part in the gradient are outputs of the layer, not in here.)
struct Sinks {
  using Key = std::pair<int64_t, int64_t>;
  std::map<int64_t, at::Tensor> loss;           // of the head, by micro-batch, scaled
  std::map<int64_t, at::Tensor> mtp_loss;       // by micro-batch, scaled and weighted
  std::map<Key, at::Tensor> load_balance_loss;  // scalars, without the coefficient
  std::map<Key, at::Tensor> z_loss;             // scalars, with the coefficient
  std::map<Key, at::Tensor> tokens_per_expert;  // [experts], int64
};

/// One micro-batch as the layers of a rank see it.
struct LayerContext {
  int64_t rows = 0;        // samples in the micro-batch
  int64_t seq_length = 0;  // of a whole sample, uncut
  int64_t micro_batch = 0;
  int64_t step = 0;
  uint64_t seed = 0;       // training.seed, for dropout masks
  bool recompute = false;  // the forward runs again for the backward: write no sinks

  /// Every loss is multiplied by this before it is summed: 1 / unmasked tokens of the global batch.
  double loss_scale = 1.0;
  double sample_scale = 1.0;    // 1 / samples of the global batch
  double position_scale = 1.0;  // 1 / positions of the global batch that the loader did not make up
  /// The tokens [begin, end) that the residual stream holds on this rank; all of them unless
  /// sequence parallelism slices it. What works on the residual stream token by token (dropout,
  /// router) takes its per-token facts from this range.
  std::pair<int64_t, int64_t> residual_tokens{0, 0};

  at::Tensor token_ids;   // [tokens] int64
  at::Tensor labels;      // [tokens] int64
  at::Tensor loss_mask;   // [tokens], 1 or 0
  at::Tensor positions;   // [tokens] int64, restart with the document if the data say so
  at::Tensor sample_ids;  // [tokens] int64: which sample of the run, for dropout masks
  at::Tensor in_sample;   // [tokens] int64: place in the sample, for dropout masks
  at::Tensor padded;      // [tokens] bool: the loader made it up; undefined if there is none

  // For multi-token prediction: the same one token later in the sample, 0 at its end; else
  // undefined.
  at::Tensor next_ids;
  at::Tensor next_labels;
  at::Tensor next_loss_mask;
  at::Tensor next_positions;
  double next_loss_scale = 1.0;  // weight of that loss / its unmasked tokens of the global batch

  /// Ends (exclusive) of the documents of each row, in places of the whole sample; the last is
  /// seq_length. Empty: every row is one document.
  std::vector<std::vector<int64_t>> document_ends;

  /// pieces[row][cp rank]: which places [begin, end) of each sample every rank of the
  /// context-parallel group holds, in the order of its tokens. The loader decides. Empty: this rank
  /// has all of it.
  std::vector<std::vector<std::vector<Range>>> pieces;

  at::Tensor rope_cos;  // [tokens, rotary_dim / 2], in rotary_dtype, made once per micro-batch
  at::Tensor rope_sin;

  Sinks* sinks = nullptr;
  Timeline* timeline = nullptr;  // where layers record what they do; nullptr: nowhere
};

}  // namespace tessera
