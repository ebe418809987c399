#include "tessera/nn/kernels/cross_entropy.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/kernel_rows.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

void check_labels(const at::Tensor& labels_T, const at::Tensor& weights_T, int64_t vocabulary) {
  const int64_t* labels = labels_T.const_data_ptr<int64_t>();
  const double* weights = weights_T.const_data_ptr<double>();
  for (int64_t t = 0; t < labels_T.numel(); ++t) {
    TESSERA_CHECK(weights[t] == 0 || (labels[t] >= 0 && labels[t] < vocabulary), "label ",
                  labels[t], " is outside the vocabulary of ", vocabulary);
  }
}

double fused(const at::Tensor& logits_TV, const at::Tensor& labels_T, const at::Tensor& weights_T,
             bool with_gradient, double cap) {
  const at::Tensor labels = labels_T.contiguous();
  const at::Tensor weights = weights_T.to(at::kDouble).contiguous();
  const int64_t tokens = logits_TV.size(0);
  const int64_t vocabulary = logits_TV.size(1);
  check_labels(labels, weights, vocabulary);
  std::vector<double> losses(static_cast<size_t>(tokens));
  dispatch_kernel(logits_TV.scalar_type(), [&]<typename T>(T) {
    over_rows(tokens, vocabulary, [&](int64_t begin, int64_t end) {
      std::vector<kernels::Wide<T>> scratch(static_cast<size_t>(vocabulary));
      kernels::cross_entropy<T>(mutable_rows<T>(logits_TV), vocabulary,
                                labels.const_data_ptr<int64_t>(), weights.const_data_ptr<double>(),
                                cap, with_gradient, losses.data(), scratch.data(), begin, end);
    });
  });
  double sum = 0;  // in the order of the tokens, whoever computed them
  for (const double loss : losses) sum += loss;
  return sum;
}

double composed(at::Tensor& logits_TV, const at::Tensor& labels_T, const at::Tensor& weights_T,
                bool with_gradient, double cap) {
  const auto type = accumulation_type(logits_TV.scalar_type());
  const at::Tensor weights = weights_T.to(type);
  const at::Tensor counted = weights != 0;
  const at::Tensor labels = at::where(counted, labels_T, 0).unsqueeze(1);
  TESSERA_CHECK(labels.ge(0).logical_and(labels.lt(logits_TV.size(1))).all().item<bool>(),
                "a label is outside the vocabulary of ", logits_TV.size(1));
  at::Tensor wide = logits_TV.to(type);
  if (cap > 0) wide = (wide / cap).tanh_().mul_(cap);
  const at::Tensor lse = wide.logsumexp(1, true);
  const at::Tensor losses = (lse - wide.gather(1, labels)).squeeze(1);
  const double sum = at::where(counted, losses * weights, 0).sum(at::kDouble).item<double>();
  if (with_gradient) {
    at::Tensor gradient = (wide - lse).exp_();
    gradient.scatter_add_(1, labels, at::full_like(labels, -1, gradient.options()));
    gradient.mul_(weights.unsqueeze(1));
    if (cap > 0) gradient.mul_(1 - (wide / cap).square_());
    logits_TV.copy_(gradient.masked_fill_(counted.logical_not().unsqueeze(1), 0));
  }
  return sum;
}

}  // namespace

double cross_entropy_(at::Tensor& logits_TV, const at::Tensor& labels_T,
                      const at::Tensor& weights_T, bool with_gradient, double cap) {
  if (labels_T.numel() == 0) return 0.0;
  return has_kernels(logits_TV) && logits_TV.stride(1) == 1
             ? fused(logits_TV, labels_T, weights_T, with_gradient, cap)
             : composed(logits_TV, labels_T, weights_T, with_gradient, cap);
}

}  // namespace tessera
