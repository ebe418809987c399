#include "tessera/parallel/context/attention_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "tessera/base/error.h"
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

FlashPlaces places_of(const VisibleBlock& block) {
  FlashPlaces places;
  places.causal = block.causal;
  places.first_query = block.ahead;
  return places;
}

}  // namespace

std::vector<VisibleBlock> plan_blocks(const std::vector<Range>& queries,
                                      const std::vector<Range>& keys,
                                      const std::vector<int64_t>& document_ends, int64_t row,
                                      int64_t window) {
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
        Range seen{std::max(k.begin, document_begin), std::min(k.end, *end)};
        Range ask{std::max(q.begin, document_begin), std::min(q.end, *end)};
        if (window > 0) {
          seen.begin = std::max(seen.begin, ask.begin - window + 1);
          ask.end = std::min(ask.end, seen.end + window - 1);
        }
        if (seen.size() <= 0 || ask.size() <= 0) continue;
        VisibleBlock block;
        block.row = row;
        block.queries = {q_local + ask.begin - q.begin, q_local + ask.end - q.begin};
        block.keys = {k_local + seen.begin - k.begin, k_local + seen.end - k.begin};
        block.causal = q == k;
        block.ahead = ask.begin - seen.begin;
        (block.causal ? causal : full).push_back(block);
      }
      k_local += k.size();
    }
    q_local += q.size();
  }
  causal.insert(causal.end(), full.begin(), full.end());
  return causal;
}

int64_t visible_pairs(const std::vector<VisibleBlock>& blocks, int64_t window) {
  int64_t pairs = 0;
  for (const VisibleBlock& b : blocks) {
    const int64_t n = b.queries.size();
    if (window == 0) {
      pairs += b.causal ? n * (n + 1) / 2 : n * b.keys.size();
      continue;
    }
    for (int64_t query = b.ahead; query < b.ahead + n; ++query) {  // counted from the first key
      const int64_t first = std::max<int64_t>(0, query - window + 1);
      pairs += std::max<int64_t>(0, std::min(query + 1, b.keys.size()) - first);
    }
  }
  return pairs;
}

BlockAttention::BlockAttention(at::Tensor q_RLND, int64_t value_size, AttentionScores scores)
    : q_(std::move(q_RLND)), scores_(std::move(scores)), sinks_(std::move(scores_.sinks)) {
  scores_.sinks = at::Tensor();
  const auto options = q_.options().dtype(accumulation_type(q_.scalar_type()));
  out_ = at::empty({q_.size(0), q_.size(1), q_.size(2), value_size}, options);
  lse_ = at::empty({q_.size(0), q_.size(2), q_.size(1)}, options);
  clear();
}

void BlockAttention::keep_largest() {
  largest_ = at::full({q_.size(2)}, -std::numeric_limits<double>::infinity(), lse_.options());
}

void BlockAttention::clear() {
  out_.zero_();
  if (sinks_.defined()) {
    lse_.copy_(sinks_.view({1, -1, 1}).expand(lse_.sizes()));
  } else {
    lse_.fill_(-std::numeric_limits<double>::infinity());
  }
}

void BlockAttention::attend(const at::Tensor& k_RLMD, const at::Tensor& v_RLME,
                            const std::vector<VisibleBlock>& blocks) {
  for (const VisibleBlock& b : blocks) {
    const at::Tensor largest = attend_block(take(q_, b.row, b.queries), take(k_RLMD, b.row, b.keys),
                                            take(v_RLME, b.row, b.keys), scores_, places_of(b),
                                            take(out_, b.row, b.queries),
                                            take_lse(lse_, b.row, b.queries), largest_.defined());
    if (largest_.defined()) largest_ = at::maximum(largest_, largest.amax(0));
  }
}

void attend_backward(const AttentionSaved& s, const at::Tensor& k, const at::Tensor& v,
                     const std::vector<VisibleBlock>& blocks, const at::Tensor& dq,
                     const at::Tensor& dk, const at::Tensor& dv) {
  for (const VisibleBlock& b : blocks) {
    const auto asked = [&](const at::Tensor& x) { return take(x, b.row, b.queries); };
    const auto seen = [&](const at::Tensor& x) { return take(x, b.row, b.keys); };
    attend_block_backward({asked(s.grad_out), asked(s.q), seen(k), seen(v), asked(s.out),
                           take_lse(s.lse, b.row, b.queries)},
                          s.scores, places_of(b), {asked(dq), seen(dk), seen(dv)});
  }
}

}  // namespace tessera
