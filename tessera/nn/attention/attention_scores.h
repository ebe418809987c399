#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera {

/// How an attention layer's scores become weights: q k^T * scale, then soft_cap * tanh(score /
/// soft_cap) where there is a cap (Gemma 2, arXiv 2408.00118, section 2), over the keys of the
/// window, then a softmax.
struct AttentionScores {
  double scale = 0;     // above 0
  double soft_cap = 0;  // 0: none
  int64_t window = 0;   // a query sees itself and the window - 1 keys before it; 0: all before it
  at::Tensor sinks;     // [N] one more logit a head, in the denominator alone; undefined: none
};

}  // namespace tessera
