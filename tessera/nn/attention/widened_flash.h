#pragma once

// The backward of attention in bfloat16 on processors without bfloat16 units, where libtorch's own
// is seven times slower than in float32. (Its forward is as fast in either type.)

#include "tessera/nn/attention/flash_attention.h"

namespace tessera {

/// The gradients of one call of libtorch's flash kernel, as flash_backward() has them, with no cut:
/// bfloat16 tensors are widened to float32, a few heads or samples at once (those that fit into
/// kWidenedAttentionBytes), and each gradient is rounded once.
FlashGrads widened_flash_backward(const at::Tensor& grad_out, const at::Tensor& q,
                                  const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                                  const at::Tensor& lse, bool causal, double scale);

}  // namespace tessera
