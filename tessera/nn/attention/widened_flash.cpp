#include "tessera/nn/attention/widened_flash.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tessera/layout/size_choices.h"

namespace tessera {
namespace {

at::Tensor empty_like_heads(const at::Tensor& x_BNLD) {
  return at::empty({x_BNLD.size(0), x_BNLD.size(2), x_BNLD.size(1), x_BNLD.size(3)},
                   x_BNLD.options())
      .transpose(1, 2);
}

// Samples and kv heads of one call of the kernel.
struct Piece {
  int64_t sample, samples;
  int64_t kv_head, kv_heads;

  // x [B, heads, ...], of which `share` heads belong to a kv head.
  at::Tensor of(const at::Tensor& x, int64_t share) const {
    return x.narrow(0, sample, samples).narrow(1, kv_head * share, kv_heads * share);
  }
};

}  // namespace

FlashGrads widened_flash_backward(const at::Tensor& grad_out, const at::Tensor& q,
                                  const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                                  const at::Tensor& lse, bool causal, double scale) {
  const int64_t samples = q.size(0), kv_heads = k.size(1), share = q.size(1) / kv_heads;
  // Of a sample and a kv head: four tensors like its queries, four like its keys.
  const int64_t bytes = 16 * (share * q.size(2) + k.size(2)) * q.size(3);
  const int64_t fit = std::max<int64_t>(1, kWidenedAttentionBytes / bytes);
  const int64_t heads_at_once = std::min(fit, kv_heads);
  const int64_t samples_at_once = std::clamp<int64_t>(fit / kv_heads, 1, samples);

  FlashGrads grads{empty_like_heads(q), empty_like_heads(k), empty_like_heads(v)};
  for (int64_t sample = 0; sample < samples; sample += samples_at_once) {
    for (int64_t head = 0; head < kv_heads; head += heads_at_once) {
      const Piece piece{sample, std::min(samples_at_once, samples - sample), head,
                        std::min(heads_at_once, kv_heads - head)};
      const auto wide = [&](const at::Tensor& x, int64_t heads) {
        return piece.of(x, heads).to(at::kFloat);
      };
      const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          wide(grad_out, share), wide(q, share), wide(k, 1), wide(v, 1), wide(out, share),
          piece.of(lse, share), /*dropout_p=*/0.0, causal, /*attn_mask=*/{}, scale);
      piece.of(grads.q, share).copy_(dq);
      piece.of(grads.k, 1).copy_(dk);
      piece.of(grads.v, 1).copy_(dv);
    }
  }
  return grads;
}

}  // namespace tessera
