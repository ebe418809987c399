#include "tessera/parallel/context/block_kernel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/nn/scalar_type.h"

// G query heads share a kv head: [B, N, l, D] is [B, M, G, l, D] here, k and v [B, M, 1, m, D].

namespace tessera {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

at::Tensor grouped(const at::Tensor& x_BNlD, int64_t kv_heads) {
  return x_BNlD.to(accumulation_type(x_BNlD.scalar_type())).unflatten(1, {kv_heads, -1});
}

at::Tensor shared(const at::Tensor& x_BMmD) {
  return x_BMmD.to(accumulation_type(x_BMmD.scalar_type())).unsqueeze(2);
}

// Runs of queries whose scores take no more than `bytes`.
std::vector<Range> runs_of(const at::Tensor& q_BNlD, int64_t keys, int64_t bytes) {
  const int64_t queries = q_BNlD.size(2);
  const auto element =
      static_cast<int64_t>(c10::elementSize(accumulation_type(q_BNlD.scalar_type())));
  const int64_t bytes_of_query = q_BNlD.size(0) * q_BNlD.size(1) * keys * element;
  const int64_t most = std::max<int64_t>(1, bytes / std::max<int64_t>(1, bytes_of_query));
  std::vector<Range> runs;
  for (int64_t begin = 0; begin < queries; begin += most) {
    runs.push_back({begin, std::min(begin + most, queries)});
  }
  return runs;
}

at::Tensor queries(const at::Tensor& x_BMGl, const Range& run) {
  return x_BMGl.narrow(3, run.begin, run.size());
}

// Capped, -infinity where a query of the run does not see a key.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const Range& run,
                     const AttentionScores& scores, const FlashPlaces& places) {
  at::Tensor all = at::matmul(q, k.transpose(-1, -2)).mul_(scores.scale);
  if (scores.soft_cap > 0) all.div_(scores.soft_cap).tanh_().mul_(scores.soft_cap);
  const auto options = all.options().dtype(at::kLong);
  const int64_t ahead = places.first_query - places.first_key;
  const at::Tensor before = at::arange(ahead + run.begin, ahead + run.end, options).unsqueeze(1) -
                            at::arange(k.size(3), options).unsqueeze(0);
  if (places.causal) all.masked_fill_(before.lt(0), kNone);
  if (scores.window > 0) all.masked_fill_(before.ge(scores.window), kNone);
  return all;
}

}  // namespace

at::Tensor attend_block_by_products(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const AttentionScores& scores, const FlashPlaces& places,
                                    const at::Tensor& out, const at::Tensor& lse, bool with_largest,
                                    int64_t score_bytes) {
  const int64_t kv_heads = k.size(1);
  const at::Tensor q_g = grouped(q, kv_heads), k_s = shared(k), v_s = shared(v);
  const at::Tensor out_g = out.unflatten(1, {kv_heads, -1}),
                   lse_g = lse.unflatten(1, {kv_heads, -1});
  at::Tensor largest;
  for (const Range& run : runs_of(q, k.size(2), score_bytes)) {
    at::Tensor all = scores_of(queries(q_g, run), k_s, run, scores, places);
    at::Tensor to_out = queries(out_g, run), to_lse = queries(lse_g, run);
    if (with_largest) {
      const at::Tensor own = all.amax({-2, -1}).flatten(1);
      largest = largest.defined() ? at::maximum(largest, own) : own;
    }
    const at::Tensor merged = at::logaddexp(to_lse, all.logsumexp(-1));
    // Where nothing is seen at all, differences are taken from zero.
    const at::Tensor from = merged.masked_fill(merged == kNone, 0);
    all.sub_(from.unsqueeze(-1)).exp_();
    to_out.mul_((to_lse - from).exp_().unsqueeze(-1)).add_(at::matmul(all, v_s));
    to_lse.copy_(merged);
  }
  return largest;
}

void attend_block_backward_by_products(const BlockSaved& saved, const AttentionScores& scores,
                                       const FlashPlaces& places, const BlockGrads& grads,
                                       int64_t score_bytes) {
  const int64_t kv_heads = saved.k.size(1);
  const at::Tensor q_g = grouped(saved.q, kv_heads), dout = grouped(saved.grad_out, kv_heads);
  const at::Tensor k_s = shared(saved.k), v_s = shared(saved.v);
  const at::Tensor lse_g = saved.lse.unflatten(1, {kv_heads, -1}).unsqueeze(-1);
  const at::Tensor mean = (dout * grouped(saved.out, kv_heads)).sum(-1, /*keepdim=*/true);
  const at::Tensor dq = grads.q.unflatten(1, {kv_heads, -1});
  const at::Tensor dk = grads.k.unsqueeze(2), dv = grads.v.unsqueeze(2);
  for (const Range& run : runs_of(saved.q, saved.k.size(2), score_bytes)) {
    const at::Tensor q_t = queries(q_g, run), dout_t = queries(dout, run);
    const at::Tensor lse = queries(lse_g, run);
    at::Tensor share = scores_of(q_t, k_s, run, scores, places);
    at::Tensor slope;  // of the capped score
    if (scores.soft_cap > 0) slope = 1 - (share / scores.soft_cap).square();
    share.sub_(lse.masked_fill(lse == kNone, 0)).exp_();  // of a key in the result, over all blocks
    at::Tensor dscores =
        at::matmul(dout_t, v_s.transpose(-1, -2)).sub_(queries(mean, run)).mul_(share);
    dscores.mul_(scores.scale);
    if (slope.defined()) dscores.mul_(slope.masked_fill_(slope == kNone, 0));
    queries(dq, run).add_(at::matmul(dscores, k_s));
    dk.add_(at::matmul(dscores.transpose(-1, -2), q_t).sum(2, /*keepdim=*/true));
    dv.add_(at::matmul(share.transpose(-1, -2), dout_t).sum(2, /*keepdim=*/true));
  }
}

at::Tensor attend_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttentionScores& scores, const FlashPlaces& places,
                        const at::Tensor& out, const at::Tensor& lse, bool with_largest) {
  if (!q.device().is_cpu()) {
    return attend_block_by_products(q, k, v, scores, places, out, lse, with_largest);
  }
  return flash_merge(out, lse, q, k, v, scores, places, with_largest);
}

void attend_block_backward(const BlockSaved& saved, const AttentionScores& scores,
                           const FlashPlaces& places, const BlockGrads& grads) {
  if (!saved.q.device().is_cpu()) {
    return attend_block_backward_by_products(saved, scores, places, grads);
  }
  flash_backward(saved.grad_out, saved.q, saved.k, saved.v, saved.out, saved.lse, scores, places,
                 grads.q, grads.k, grads.v, /*add=*/true);
}

}  // namespace tessera
