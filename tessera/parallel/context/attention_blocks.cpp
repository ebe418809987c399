#include "tessera/parallel/context/attention_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/nn/attention/flash_attention.h"
#include "tessera/nn/attention/max_logits.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/context/block_kernel.h"

namespace tessera {
namespace {

// The part of [R, L, N, D] that a block reads, as the kernel wants it: [B, N, l, D].
at::Tensor take(const at::Tensor& x_RLND, int64_t row, const Range& places) {
  const at::Tensor rows = row < 0 ? x_RLND : x_RLND.narrow(0, row, 1);
  return rows.narrow(1, places.begin, places.size()).transpose(1, 2);
}

at::Tensor take_lse(const at::Tensor& lse_RNL, int64_t row, const Range& places) {
  const at::Tensor rows = row < 0 ? lse_RNL : lse_RNL.narrow(0, row, 1);
  return rows.narrow(2, places.begin, places.size());
}

}  // namespace

std::vector<VisibleBlock> plan_blocks(const std::vector<Range>& queries,
                                      const std::vector<Range>& keys,
                                      const std::vector<int64_t>& document_ends, int64_t row) {
  std::vector<VisibleBlock> causal, full;
  int64_t q_local = 0;
  for (const Range& q : queries) {
    const auto first = std::ranges::upper_bound(document_ends, q.begin);  // of the first query
    int64_t k_local = 0;
    for (const Range& k : keys) {
      if (q != k && k.end > q.begin) {
        TESSERA_CHECK(q.end <= k.begin, "pieces overlap without being equal");
        break;  // keys that come later, as do all that follow
      }
      int64_t document_begin = first == document_ends.begin() ? 0 : *std::prev(first);
      for (auto end = first; end != document_ends.end() && document_begin < k.end;
           document_begin = *end++) {
        // Keys of this document, and queries of it that come after them (or are the same places).
        const Range seen{std::max(k.begin, document_begin), std::min(k.end, *end)};
        const Range ask{std::max(q.begin, document_begin), std::min(q.end, *end)};
        if (seen.size() <= 0 || ask.size() <= 0) continue;
        VisibleBlock block;
        block.row = row;
        block.queries = {q_local + ask.begin - q.begin, q_local + ask.end - q.begin};
        block.keys = {k_local + seen.begin - k.begin, k_local + seen.end - k.begin};
        block.causal = q == k;
        (block.causal ? causal : full).push_back(block);
      }
      k_local += k.size();
    }
    q_local += q.size();
  }
  causal.insert(causal.end(), full.begin(), full.end());
  return causal;
}

int64_t visible_pairs(const std::vector<VisibleBlock>& blocks) {
  int64_t pairs = 0;
  for (const VisibleBlock& b : blocks) {
    const int64_t n = b.queries.size();
    pairs += b.causal ? n * (n + 1) / 2 : n * b.keys.size();
  }
  return pairs;
}

BlockAttention::BlockAttention(at::Tensor q_RLND, double scale)
    : q_(std::move(q_RLND)), scale_(scale) {
  const auto options = q_.options().dtype(accumulation_type(q_.scalar_type()));
  out_ = at::zeros(q_.sizes(), options);
  lse_ = at::full({q_.size(0), q_.size(2), q_.size(1)}, -std::numeric_limits<double>::infinity(),
                  options);
}

void BlockAttention::watch_largest() {
  largest_ = at::full({q_.size(2)}, -std::numeric_limits<double>::infinity(), lse_.options());
}

void BlockAttention::attend(const at::Tensor& k_RLMD, const at::Tensor& v_RLMD,
                            const std::vector<VisibleBlock>& blocks) {
  for (const VisibleBlock& block : blocks) {
    const auto [out, lse] =
        attend_block(take(q_, block.row, block.queries), take(k_RLMD, block.row, block.keys),
                     take(v_RLMD, block.row, block.keys), block.causal, scale_);
    if (largest_.defined()) {
      at::maximum_out(largest_, largest_,
                      largest_logits(take(q_, block.row, block.queries),
                                     take(k_RLMD, block.row, block.keys), block.causal, scale_));
    }
    at::Tensor to_out = take(out_, block.row, block.queries);
    at::Tensor to_lse = take_lse(lse_, block.row, block.queries);
    if (block.causal) {
      to_out.copy_(out);
      to_lse.copy_(lse);
      continue;
    }
    flash_merge(to_out, to_lse, {out, lse});
  }
}

void attend_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                     const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                     const std::vector<VisibleBlock>& blocks, double scale, at::Tensor& dq,
                     at::Tensor& dk, at::Tensor& dv) {
  for (const VisibleBlock& b : blocks) {
    const auto [gq, gk, gv] = attend_block_backward(
        take(grad_out, b.row, b.queries), take(q, b.row, b.queries), take(k, b.row, b.keys),
        take(v, b.row, b.keys), take(out, b.row, b.queries), take_lse(lse, b.row, b.queries),
        b.causal, scale);
    take(dq, b.row, b.queries).add_(gq);
    take(dk, b.row, b.keys).add_(gk);
    take(dv, b.row, b.keys).add_(gv);
  }
}

}  // namespace tessera
