// Cross entropy over a vocabulary that is cut over ranks (Shoeybi et al. 2019, section 3).

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/comm/regions.h"
#include "tessera/layout/size_choices.h"
#include "tessera/nn/kernels/cross_entropy.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/custom_gradient.h"
#include "tessera/parallel/tensor/tensor_parallel_layers.h"

namespace tessera {
namespace {

// As cross_entropy_(), over logits [T, own rows of the vocabulary]: sum over tokens of weights x
// (log of the sum of exponentials over all ranks - target logit), the same number on every rank;
// the logits become its gradient. `vocabulary` is the range of this rank.
double cut_cross_entropy_(at::Tensor& logits_TV, const at::Tensor& labels_T,
                          const at::Tensor& weights_T, double cap, const Range& vocabulary,
                          int64_t size, const ProcessGroup& group) {
  const auto type = accumulation_type(logits_TV.scalar_type());
  const at::Tensor weights = weights_T.to(type);
  const at::Tensor counted = weights != 0;
  TESSERA_CHECK(counted.logical_not()
                    .logical_or(labels_T.ge(0).logical_and(labels_T.lt(size)))
                    .all()
                    .item<bool>(),
                "a label is outside the vocabulary of ", size);
  at::Tensor wide = logits_TV.to(type);
  at::Tensor slope;  // the derivative of the cap
  if (cap > 0) {
    wide = (wide / cap).tanh_();
    slope = 1 - wide.square();
    wide.mul_(cap);
  }
  at::Tensor highest =
      wide.size(1) == 0
          ? at::full({wide.size(0)}, -std::numeric_limits<double>::infinity(), wide.options())
          : wide.amax(1);
  group.all_reduce({highest}, ReduceOp::kMax).wait();

  const at::Tensor mine =
      labels_T.ge(vocabulary.begin).logical_and(labels_T.lt(vocabulary.end)).logical_and(counted);
  const at::Tensor columns = at::where(mine, labels_T - vocabulary.begin, 0).unsqueeze(1);
  at::Tensor shifted = wide.sub_(highest.unsqueeze(1));  // in the logits' place, if not narrower
  at::Tensor target = wide.size(1) == 0 ? at::zeros_like(highest)
                                        : at::where(mine, shifted.gather(1, columns).squeeze(1), 0);
  at::Tensor exponentials = shifted.exp_();
  at::Tensor sums = exponentials.sum(1);
  at::Tensor both = at::stack({sums, target});
  group.all_reduce({both}).wait();
  sums = both[0];
  target = both[1];

  const double loss =
      at::where(counted, (sums.log() - target) * weights, 0).sum(at::kDouble).item<double>();
  exponentials.mul_((weights / sums).unsqueeze(1));
  if (wide.size(1) > 0) {
    exponentials.scatter_add_(1, columns, at::where(mine, -weights, 0).unsqueeze(1));
  }
  if (cap > 0) exponentials.mul_(slope);
  exponentials.masked_fill_(counted.logical_not().unsqueeze(1), 0);
  if (!exponentials.is_same(logits_TV)) logits_TV.copy_(exponentials);
  return loss;
}

}  // namespace

VocabularyLossHead::VocabularyLossHead(LossHead&& plain, ProcessGroup group, bool loss_parallel)
    : LossHead(std::move(plain)), group(std::move(group)), loss_parallel(loss_parallel) {
  if (own_weight) weight = own_weight.get();
}

at::Tensor VocabularyLossHead::loss(const at::Tensor& x_TH, const at::Tensor& labels_T,
                                    const at::Tensor& mask_T, double loss_scale,
                                    const at::Tensor& low_TR) {
  const int64_t size = weight->parts.front().shape.front();
  const Range own = part_of(size, group.size(), group.rank());
  const at::Tensor weights_T = mask_T.to(at::kDouble) * loss_scale;
  const int64_t tokens = labels_T.size(0);
  const at::Tensor full_x = gather_from_sp(x_TH, tokens, group);  // backward: reduce-scatter
  const bool adapted = low_TR.defined();
  at::Tensor full_low, full_b;
  if (adapted) {
    full_low = gather_from_sp(low_TR, tokens, group);
    full_b = adapters.b[0].value;
  }
  const auto type = accumulation_type(x_TH.scalar_type());

  const bool differentiable = at::GradMode::is_enabled();

  // Chunk by chunk, gradients at once: no more than one chunk of logits ever exists.
  const at::NoGradGuard no_grad;
  const at::Tensor w = weight->value.detach();
  const at::Tensor x = full_x.detach();
  at::Tensor grad_x = at::empty_like(x);
  const bool of_weight = weight->value.requires_grad();
  at::Tensor grad_w;
  if (of_weight) grad_w = at::zeros(w.sizes(), w.options().dtype(type));
  at::Tensor low, b, grad_low, grad_b;
  if (adapted) {
    low = full_low.detach();
    b = full_b.detach();
    grad_low = at::empty_like(low);
    grad_b = at::zeros(b.sizes(), b.options().dtype(type));
  }
  double loss = 0;
  const int64_t step =
      loss_chunk_tokens(tokens, loss_parallel ? w.size(0) : size, chunks, /*cut=*/true);
  for (int64_t begin = 0; begin < tokens; begin += step) {
    const int64_t count = std::min(step, tokens - begin);
    const at::Tensor labels = labels_T.narrow(0, begin, count);
    const at::Tensor weights = weights_T.narrow(0, begin, count);
    at::Tensor logits_TV = product_nt(x.narrow(0, begin, count), w);
    if (adapted) multiply_into(logits_TV, low.narrow(0, begin, count), b.t(), /*add=*/true);
    if (loss_parallel) {
      loss += cut_cross_entropy_(logits_TV, labels, weights, soft_cap, own, size, group);
    } else {
      at::Tensor gathered_VT = at::empty({size, count}, logits_TV.options());
      group.all_gather({gathered_VT}, {logits_TV.t().contiguous()}).wait();
      at::Tensor all_TV = gathered_VT.t().contiguous();
      loss += cross_entropy_(all_TV, labels, weights, true, soft_cap);
      logits_TV = all_TV.narrow(1, own.begin, own.size());
    }
    grad_x.narrow(0, begin, count).copy_(product_nn(logits_TV, w));
    if (adapted) {
      grad_low.narrow(0, begin, count).copy_(product_nn(logits_TV, b));
      grad_b.add_(product_tn(logits_TV, low.narrow(0, begin, count)));
    }
    if (!of_weight) continue;
    if (w.scalar_type() == type) {
      grad_w.addmm_(logits_TV.t(), x.narrow(0, begin, count));
    } else {
      grad_w.add_(product_tn(logits_TV, x.narrow(0, begin, count)));
    }
  }
  if (of_weight) grad_w = grad_w.to(w.scalar_type());
  if (adapted) grad_b = grad_b.to(b.scalar_type());
  const at::AutoGradMode grad_mode(differentiable);
  return custom_gradient(
      {full_x, weight->value, full_low, full_b}, at::scalar_tensor(loss, x.options().dtype(type)),
      [made = std::vector<at::Tensor>{grad_x, grad_w, grad_low, grad_b}](const at::Tensor& grad) {
        std::vector<at::Tensor> scaled = made;
        if (grad.item<double>() == 1.0) return scaled;
        for (at::Tensor& one : scaled) {
          if (one.defined()) one = one * grad.to(one.scalar_type());
        }
        return scaled;
      });
}

at::Tensor VocabularyLossHead::logits(const at::Tensor& x_TH) {
  const at::Tensor full_x = gather_from_sp(x_TH, x_TH.size(0) * group.size(), group);
  at::Tensor own = at::linear(full_x, weight->value);
  own = adapters.added(own, adapters.low(full_x), {own.size(1)});
  at::Tensor all_VT = at::empty({weight->parts.front().shape.front(), own.size(0)}, own.options());
  group.all_gather({all_VT}, {own.t().contiguous()}).wait();
  return capped(all_VT.t());
}

}  // namespace tessera
