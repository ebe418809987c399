#include "tessera/nn/compressed/indexer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/nn/compressed/entry_sight.h"
#include "tessera/nn/compressed/tail_rotary.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

constexpr int64_t kScoresAtOnce = int64_t{1} << 22;

}  // namespace

IndexScores Indexer::scores(const at::Tensor& x_TH, const at::Tensor& latent_TL,
                            const LayerContext& context) const {
  const at::Tensor x = x_TH.detach();
  const at::Tensor weight_Th = head_weights->forward(x, context);
  const int64_t heads = weight_Th.size(1);
  const at::Tensor q_Thd = query_up->forward(latent_TL.detach(), context).unflatten(1, {heads, -1});
  const double scale = 1.0 / std::sqrt(static_cast<double>(heads * q_Thd.size(2)));
  const auto wide = [](const at::Tensor& y) { return y.to(accumulation_type(y.scalar_type())); };
  return {wide(rotate_tail(q_Thd, context.rope_cos, context.rope_sin)), wide(weight_Th) * scale,
          wide(keys->forward(x, context))};
}

std::vector<Weight*> Indexer::weights() {
  std::vector<Weight*> all = query_up->weights();
  for (Weight* weight : head_weights->weights()) all.push_back(weight);
  for (Weight* weight : keys->weights()) all.push_back(weight);
  return all;
}

at::Tensor choose_entries(const IndexScores& scores, int64_t top_k, int64_t ratio,
                          const at::Tensor& document_begins) {
  const at::NoGradGuard no_grad;
  const int64_t rows = scores.keys_BEd.size(0), entries = scores.keys_BEd.size(1);
  const int64_t tokens = scores.q_Thd.size(0), heads = scores.q_Thd.size(1);
  const int64_t chosen = std::min(top_k, entries);
  const at::Tensor out = at::full({tokens, chosen}, -1, scores.q_Thd.options().dtype(at::kInt));
  const int64_t length = tokens / rows;
  const int64_t most =
      std::clamp<int64_t>(kScoresAtOnce / std::max<int64_t>(1, heads * entries), 1, 256);
  over_query_blocks(rows, length, most, document_begins, [&](const QueryBlock& block) {
    const int64_t ready = std::min(block.end / ratio, entries);
    const int64_t kept = std::min(ready, chosen);
    if (kept == 0) return;
    const int64_t first = block.row * length + block.first;
    const at::Tensor q_LhD = scores.q_Thd.narrow(0, first, block.size());
    const at::Tensor keys_ED = scores.keys_BEd.select(0, block.row).narrow(0, 0, ready);
    const at::Tensor products = at::mm(q_LhD.flatten(0, 1), keys_ED.t()).clamp_min_(0);
    const at::Tensor weight_L1h = scores.weight_Th.narrow(0, first, block.size()).unsqueeze(1);
    at::Tensor score_LE =
        at::bmm(weight_L1h, products.unflatten(0, {block.size(), heads})).squeeze(1);
    const at::Tensor hidden = hidden_entries(block, ratio, ready, score_LE.device());
    score_LE.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
    const at::Tensor best = std::get<1>(score_LE.topk(kept, -1));
    const at::Tensor visible = best.masked_fill(hidden.gather(1, best), -1);
    out.narrow(0, first, block.size()).narrow(1, 0, kept).copy_(visible);
  });
  return out;
}

}  // namespace tessera
