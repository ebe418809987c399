#include "tessera/nn/attention/max_logits.h"

#include <ATen/ATen.h>

#include <limits>

namespace tessera {

namespace {
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

}  // namespace tessera
