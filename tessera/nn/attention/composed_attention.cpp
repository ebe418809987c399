#include "tessera/nn/attention/composed_attention.h"

#include <ATen/ATen.h>

#include <limits>

#include "tessera/nn/scalar_type.h"

namespace tessera {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

at::Tensor fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, scale,
                                          /*enable_gqa=*/q.size(1) != k.size(1));
}

// Scores of the pairs, -infinity where a query does not see a key: [B, N, L, L].
at::Tensor masked_scores(const at::Tensor& q, const at::Tensor& k, const AttentionScores& scores) {
  at::Tensor all = at::matmul(q, k.transpose(-1, -2)) * scores.scale;
  if (scores.soft_cap > 0) all = (all / scores.soft_cap).tanh() * scores.soft_cap;
  const at::Tensor place = at::arange(q.size(2), q.options().dtype(at::kLong));
  const at::Tensor before = place.unsqueeze(1) - place.unsqueeze(0);
  at::Tensor hidden = before.lt(0);
  if (scores.window > 0) hidden = hidden.logical_or(before.ge(scores.window));
  return all.masked_fill(hidden, kNone);
}

// One document of each sample.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionScores& scores, at::Tensor* largest) {
  const bool windowed = scores.window > 0 && scores.window < q.size(2);
  if (scores.soft_cap == 0 && !windowed && !scores.sinks.defined() && !largest) {
    return fused(q, k, v, scores.scale);
  }
  const auto wide = [](const at::Tensor& x) { return x.to(accumulation_type(x.scalar_type())); };
  const int64_t share = q.size(1) / k.size(1);
  at::Tensor all = masked_scores(wide(q), wide(k).repeat_interleave(share, 1), scores);
  if (largest) *largest = all.detach().amax({-2, -1});
  if (scores.sinks.defined()) {
    const at::Tensor sink = wide(scores.sinks).view({1, -1, 1, 1});
    all = at::cat({all, sink.expand({q.size(0), -1, q.size(2), 1})}, -1);
  }
  const at::Tensor weights = all.softmax(-1).narrow(-1, 0, k.size(2));
  return at::matmul(weights, wide(v).repeat_interleave(share, 1)).to(q.scalar_type());
}

}  // namespace

at::Tensor composed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionScores& scores,
                              const std::vector<std::vector<int64_t>>& document_ends,
                              at::Tensor* largest) {
  if (document_ends.empty()) return attend(q, k, v, scores, largest);
  std::vector<at::Tensor> samples, largest_of_samples;
  for (int64_t b = 0; b < q.size(0); ++b) {
    std::vector<at::Tensor> documents;
    at::Tensor most;
    int64_t begin = 0;
    for (const int64_t end : document_ends[static_cast<size_t>(b)]) {
      if (end == begin) continue;
      const auto part = [&](const at::Tensor& x) {
        return x.narrow(0, b, 1).narrow(2, begin, end - begin);
      };
      at::Tensor own;
      documents.push_back(attend(part(q), part(k), part(v), scores, largest ? &own : nullptr));
      if (largest) most = most.defined() ? at::maximum(most, own) : own;
      begin = end;
    }
    samples.push_back(at::cat(documents, 2));
    if (largest) largest_of_samples.push_back(most);
  }
  if (largest) *largest = at::cat(largest_of_samples);
  return at::cat(samples);
}

}  // namespace tessera
