#include "tessera/parallel/context/block_kernel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tessera/nn/attention/flash_attention.h"
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

// Queries [begin, begin + size) and the first `keys` keys, all that they see.
struct Tile {
  int64_t begin;
  int64_t size;
  int64_t keys;
};

// Runs of queries whose scores take no more than `bytes`.
std::vector<Tile> tiles_of(const at::Tensor& q_BNlD, int64_t keys, bool causal, int64_t bytes) {
  const int64_t queries = q_BNlD.size(2);
  const auto element =
      static_cast<int64_t>(c10::elementSize(accumulation_type(q_BNlD.scalar_type())));
  const int64_t bytes_of_query = q_BNlD.size(0) * q_BNlD.size(1) * keys * element;
  const int64_t most = std::max<int64_t>(1, bytes / std::max<int64_t>(1, bytes_of_query));
  std::vector<Tile> tiles;
  for (int64_t begin = 0; begin < queries; begin += most) {
    const int64_t size = std::min(most, queries - begin);
    tiles.push_back({begin, size, causal ? std::min(keys, begin + size) : keys});
  }
  return tiles;
}

at::Tensor queries(const at::Tensor& x_BMGl, const Tile& tile) {
  return x_BMGl.narrow(3, tile.begin, tile.size);
}

at::Tensor keys(const at::Tensor& x_BM1mD, const Tile& tile) {
  return x_BM1mD.narrow(3, 0, tile.keys);
}

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const Tile& tile, bool causal,
                     double scale) {
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)).mul_(scale);
  if (causal) {
    const at::Tensor later =
        at::ones({tile.size, tile.keys}, scores.options().dtype(at::kBool)).triu_(tile.begin + 1);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return scores;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> attend_block_by_products(const at::Tensor& q, const at::Tensor& k,
                                                           const at::Tensor& v, bool causal,
                                                           double scale, int64_t score_bytes) {
  const int64_t kv_heads = k.size(1);
  const at::Tensor q_g = grouped(q, kv_heads), k_s = shared(k), v_s = shared(v);
  at::Tensor out = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  at::Tensor lse = at::empty({q.size(0), q.size(1), q.size(2)}, q_g.options());
  at::Tensor out_g = out.unflatten(1, {kv_heads, -1}), lse_g = lse.unflatten(1, {kv_heads, -1});
  for (const Tile& tile : tiles_of(q, k.size(2), causal, score_bytes)) {
    at::Tensor scores = scores_of(queries(q_g, tile), keys(k_s, tile), tile, causal, scale);
    const at::Tensor sums = scores.logsumexp(-1);
    scores.sub_(sums.unsqueeze(-1)).exp_();
    queries(lse_g, tile).copy_(sums);
    queries(out_g, tile).copy_(at::matmul(scores, keys(v_s, tile)));
  }
  return {out, lse};
}

std::array<at::Tensor, 3> attend_block_backward_by_products(
    const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, bool causal, double scale, int64_t score_bytes) {
  const int64_t kv_heads = k.size(1);
  const at::Tensor q_g = grouped(q, kv_heads), dout = grouped(grad_out, kv_heads);
  const at::Tensor k_s = shared(k), v_s = shared(v);
  const at::Tensor lse_g = lse.unflatten(1, {kv_heads, -1}).unsqueeze(-1);
  const at::Tensor mean = (dout * grouped(out, kv_heads)).sum(-1, /*keepdim=*/true);
  at::Tensor dq = at::empty(q_g.sizes(), q_g.options());
  at::Tensor dk = at::zeros(k_s.sizes(), k_s.options());
  at::Tensor dv = at::zeros(v_s.sizes(), v_s.options());
  for (const Tile& tile : tiles_of(q, k.size(2), causal, score_bytes)) {
    const at::Tensor q_t = queries(q_g, tile), dout_t = queries(dout, tile);
    const at::Tensor k_t = keys(k_s, tile), v_t = keys(v_s, tile);
    const at::Tensor share =  // of each key in a query's result, over all blocks
        scores_of(q_t, k_t, tile, causal, scale).sub_(queries(lse_g, tile)).exp_();
    const at::Tensor dscores =
        at::matmul(dout_t, v_t.transpose(-1, -2)).sub_(queries(mean, tile)).mul_(share).mul_(scale);
    queries(dq, tile).copy_(at::matmul(dscores, k_t));
    keys(dk, tile).add_(at::matmul(dscores.transpose(-1, -2), q_t).sum(2, /*keepdim=*/true));
    keys(dv, tile).add_(at::matmul(share.transpose(-1, -2), dout_t).sum(2, /*keepdim=*/true));
  }
  return {dq.flatten(1, 2).to(q.scalar_type()), dk.squeeze(2).to(k.scalar_type()),
          dv.squeeze(2).to(v.scalar_type())};
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
