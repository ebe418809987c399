#include "tessera/nn/attention/max_logits.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace tessera {

namespace {
constexpr int64_t kQueriesAtOnce = 256;
constexpr double kLowest = -std::numeric_limits<double>::infinity();
}  // namespace

bool wants_max_logits(const LayerContext& context) {
  return context.step->wants_max_logits && context.sinks() != nullptr;
}

void record_max_logits(const at::Tensor& largest_H, int64_t first_head, int64_t heads,
                       int64_t layer, const LayerContext& context) {
  const at::NoGradGuard no_grad;
  at::Tensor& all = context.sinks()->max_logits[{layer, context.micro_batch}];
  if (!all.defined()) all = at::full({heads}, kLowest, largest_H.options());
  at::Tensor place = all.narrow(0, first_head, largest_H.size(0));
  at::maximum_out(place, place, largest_H.detach());
}

at::Tensor largest_logits(const at::Tensor& q_BNLD, const at::Tensor& k_BMKD, bool causal,
                          double scale) {
  const at::NoGradGuard no_grad;
  const at::ScalarType wide = q_BNLD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t heads = q_BNLD.size(1);
  const int64_t queries = q_BNLD.size(2);
  const at::Tensor keys =
      k_BMKD.detach().to(wide).repeat_interleave(heads / k_BMKD.size(1), 1).transpose(-1, -2);
  at::Tensor largest = at::full({heads}, kLowest, q_BNLD.options().dtype(wide));
  for (int64_t first = 0; first < queries; first += kQueriesAtOnce) {
    const int64_t count = std::min(kQueriesAtOnce, queries - first);
    const int64_t seen = causal ? std::min(first + count, keys.size(-1)) : keys.size(-1);
    at::Tensor logits = at::matmul(q_BNLD.detach().narrow(2, first, count).to(wide) * scale,
                                   keys.narrow(-1, 0, seen));
    if (causal) {
      const at::Tensor unseen =
          at::ones({count, seen}, logits.options().dtype(at::kBool)).triu(first + 1);
      logits.masked_fill_(unseen, kLowest);
    }
    at::maximum_out(largest, largest, logits.amax({0, 2, 3}));
  }
  return largest;
}

}  // namespace tessera
