#pragma once

// What a step decides once for all of its micro-batches and layers.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>

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
  /// Largest attention logit (scaled, what the softmax sees) of each head that attention has on
  /// this rank, over its tokens: [heads] float, -infinity for a head that another rank of the
  /// context-parallel group computes. Only where StepContext::wants_max_logits.
  std::map<Key, at::Tensor> max_logits;
};

struct KeptModules;  // parallel/kept_modules.h

/// One step on one rank. Made by the trainer; the contexts of micro-batches refer to it, so it
/// lives until the last backward of the step.
struct StepContext {
  int64_t number = 0;  // updates done before it
  uint64_t seed = 0;   // training.seed, for dropout masks

  // Every loss is a sum over what it counts, multiplied by one of these before anything is summed.
  // The loader decides what counts; a count of none gives a scale of 0.
  double loss_scale = 1.0;       // 1 / labels of the global batch that count
  double next_loss_scale = 1.0;  // of multi-token prediction: weight / its labels that count
  double sample_scale = 1.0;     // 1 / samples of the global batch
  double position_scale = 1.0;   // 1 / tokens of the global batch that the loader did not make up

  bool trains = true;             // false: the model is only looked at, nothing is dropped
  at::Device device = at::kCPU;   // of the rank
  Timeline* timeline = nullptr;   // where layers record what they do; nullptr: nowhere
  Sinks* sinks = nullptr;         // where layers write on the side; nullptr: nowhere
  bool wants_max_logits = false;  // attention writes Sinks::max_logits, which costs time
  /// Where modules that do not run again with what surrounds them keep their first run until the
  /// backward pass; nullptr: nothing is differentiated, so nothing is kept.
  KeptModules* kept = nullptr;
};

/// For layers that run outside of a step: every scale is 1, nothing is recorded.
inline const StepContext kNoStep;

}  // namespace tessera
