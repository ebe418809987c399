#include "tessera/parallel/block_kernel.h"

#include <ATen/ATen.h>

#include <limits>

#include "tessera/nn/flash_attention.h"
#include "tessera/nn/scalar_type.h"

// G query heads share a kv head: [B, N, l, D] is [B, M, G, l, D] here, k and v [B, M, 1, m, D].

namespace tessera {
namespace {

at::Tensor grouped(const at::Tensor& x_BNlD, int64_t kv_heads) {
  return x_BNlD.to(accumulation_type(x_BNlD.scalar_type())).unflatten(1, {kv_heads, -1});
}

at::Tensor shared(const at::Tensor& x_BMmD) {
  return x_BMmD.to(accumulation_type(x_BMmD.scalar_type())).unsqueeze(2);
}

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, bool causal, double scale) {
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)).mul_(scale);
  if (causal) {
    const at::Tensor later =
        at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool)).triu_(1);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return scores;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> attend_block_by_products(const at::Tensor& q, const at::Tensor& k,
                                                           const at::Tensor& v, bool causal,
                                                           double scale) {
  const at::Tensor scores = scores_of(grouped(q, k.size(1)), shared(k), causal, scale);
  const at::Tensor lse = scores.logsumexp(-1);
  const at::Tensor out = at::matmul((scores - lse.unsqueeze(-1)).exp_(), shared(v));
  return {out.flatten(1, 2).to(q.scalar_type()), lse.flatten(1, 2)};
}

std::array<at::Tensor, 3> attend_block_backward_by_products(
    const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, bool causal, double scale) {
  const int64_t kv_heads = k.size(1);
  const at::Tensor q_g = grouped(q, kv_heads), dout = grouped(grad_out, kv_heads);
  const at::Tensor k_s = shared(k), v_s = shared(v);
  const at::Tensor share =  // of each key in a query's result, over all blocks
      (scores_of(q_g, k_s, causal, scale) - lse.unflatten(1, {kv_heads, -1}).unsqueeze(-1)).exp_();
  const at::Tensor mean = (dout * grouped(out, kv_heads)).sum(-1, /*keepdim=*/true);
  const at::Tensor dscores =
      (at::matmul(dout, v_s.transpose(-1, -2)) - mean).mul_(share).mul_(scale);
  const at::Tensor dq = at::matmul(dscores, k_s).flatten(1, 2);
  const at::Tensor dk = at::matmul(dscores.transpose(-1, -2), q_g).sum(2);
  const at::Tensor dv = at::matmul(share.transpose(-1, -2), dout).sum(2);
  return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

std::pair<at::Tensor, at::Tensor> attend_block(const at::Tensor& q, const at::Tensor& k,
                                               const at::Tensor& v, bool causal, double scale) {
  if (!q.device().is_cpu()) return attend_block_by_products(q, k, v, causal, scale);
  FlashResult result = flash_forward(q, k, v, causal, scale);
  return {std::move(result.out), std::move(result.lse)};
}

std::array<at::Tensor, 3> attend_block_backward(const at::Tensor& grad_out, const at::Tensor& q,
                                                const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& out, const at::Tensor& lse,
                                                bool causal, double scale) {
  if (!q.device().is_cpu()) {
    return attend_block_backward_by_products(grad_out, q, k, v, out, lse, causal, scale);
  }
  FlashGrads grads = flash_backward(grad_out, q, k, v, out, lse, causal, scale);
  return {std::move(grads.q), std::move(grads.k), std::move(grads.v)};
}

}  // namespace tessera
