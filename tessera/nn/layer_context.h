#pragma once

// What a layer may know about the tokens in front of it.
// Activations are flat, [tokens, hidden]: the rank's part of (rows x sequence).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/nn/step_context.h"

namespace tessera {

/// One micro-batch as the layers of a rank see it.
struct LayerContext {
  int64_t rows = 0;        // samples in the micro-batch
  int64_t seq_length = 0;  // of a whole sample, uncut
  int64_t micro_batch = 0;
  const StepContext* step = &kNoStep;  // of the whole step; outlives the context
  bool recompute = false;              // the forward runs again for the backward: write no sinks
  bool predicts_next = false;          // multi-token prediction: labels are one token later

  /// Of the loss of these labels, see StepContext.
  double loss_scale() const { return predicts_next ? step->next_loss_scale : step->loss_scale; }
  /// Where to write on the side; nullptr: nowhere.
  Sinks* sinks() const { return recompute ? nullptr : step->sinks; }

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

  /// Ends (exclusive) of the documents of each row, in places of the whole sample; the last is
  /// seq_length. Empty: every row is one document.
  std::vector<std::vector<int64_t>> document_ends;

  /// pieces[row][cp rank]: which places [begin, end) of each sample every rank of the
  /// context-parallel group holds, in the order of its tokens. The loader decides. Empty: this rank
  /// has all of it.
  std::vector<std::vector<std::vector<Range>>> pieces;

  at::Tensor rope_cos;  // [tokens, rotary_dim / 2], in rotary_dtype, made once per micro-batch
  at::Tensor rope_sin;
  at::Tensor
      window_rope_cos;  // of layers with a window where their base is another; else undefined
  at::Tensor window_rope_sin;
};

}  // namespace tessera
