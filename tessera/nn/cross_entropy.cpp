#include "tessera/nn/cross_entropy.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

double cross_entropy_(at::Tensor& logits_TV, const at::Tensor& labels_T,
                      const at::Tensor& weights_T, bool with_gradient) {
  if (labels_T.numel() == 0) return 0.0;
  const auto type = accumulation_type(logits_TV.scalar_type());
  const at::Tensor weights = weights_T.to(type);
  const at::Tensor counted = weights != 0;
  const at::Tensor labels = at::where(counted, labels_T, 0).unsqueeze(1);
  TESSERA_CHECK(labels.ge(0).logical_and(labels.lt(logits_TV.size(1))).all().item<bool>(),
                "a label is outside the vocabulary of ", logits_TV.size(1));
  at::Tensor wide = logits_TV.to(type);
  const at::Tensor lse = wide.logsumexp(1, true);
  const at::Tensor losses = (lse - wide.gather(1, labels)).squeeze(1);
  const double sum = at::where(counted, losses * weights, 0).sum(at::kDouble).item<double>();
  if (with_gradient) {
    at::Tensor gradient = (wide - lse).exp_();
    gradient.scatter_add_(1, labels, at::full_like(labels, -1, gradient.options()));
    gradient.mul_(weights.unsqueeze(1));
    logits_TV.copy_(gradient.masked_fill_(counted.logical_not().unsqueeze(1), 0));
  }
  return sum;
}

}  // namespace tessera
