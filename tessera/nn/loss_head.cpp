#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/size_choices.h"
#include "tessera/nn/kernels/cross_entropy.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Loss over x W^T. Logits of all tokens in one chunk: their gradient is kept in their place for the
// backward pass. Several chunks: the gradients of x and W are made at once, chunk by chunk, so that
// no more than one chunk of logits ever exists and none is computed twice. With an adapter the
// logits are x W^T + low B^T.
struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TH,
                            const at::Tensor& weight_VH, const at::Tensor& labels_T,
                            const at::Tensor& weights_T, double cap, int64_t chunk_tokens,
                            bool differentiable, const std::optional<at::Tensor>& low_TR,
                            const std::optional<at::Tensor>& b_VR) {
    const int64_t tokens = x_TH.size(0);
    const bool of_x = differentiable && x_TH.requires_grad();
    const bool of_weight = differentiable && weight_VH.requires_grad();
    const bool adapted = low_TR.has_value();
    const bool of_adapter = differentiable && adapted;
    const bool with_gradient = of_x || of_weight || of_adapter;
    ctx->saved_data["adapted"] = of_adapter;
    const auto type = accumulation_type(x_TH.scalar_type());
    double loss = 0;
    if (tokens <= chunk_tokens) {
      at::Tensor logits_TV = product_nt(x_TH, weight_VH);
      if (adapted) multiply_into(logits_TV, *low_TR, b_VR->t(), /*add=*/true);
      loss = cross_entropy_(logits_TV, labels_T, weights_T, with_gradient, cap);
      if (with_gradient) {
        variable_list kept{of_weight ? x_TH : at::Tensor(), weight_VH, logits_TV};
        if (of_adapter) kept.insert(kept.end(), {*low_TR, *b_VR});
        ctx->save_for_backward(kept);
      }
      ctx->saved_data["whole"] = true;
    } else {
      at::Tensor grad_x, grad_weight, grad_low, grad_b;
      if (of_adapter) {
        grad_low = at::empty_like(*low_TR);
        grad_b = at::zeros(b_VR->sizes(), b_VR->options().dtype(type));
      }
      if (of_x) grad_x = at::empty_like(x_TH);
      if (of_weight) grad_weight = at::zeros(weight_VH.sizes(), weight_VH.options().dtype(type));
      at::Tensor buffer = at::empty({chunk_tokens, weight_VH.size(0)}, x_TH.options());
      for (int64_t begin = 0; begin < tokens; begin += chunk_tokens) {
        const int64_t count = std::min(chunk_tokens, tokens - begin);
        const at::Tensor x = x_TH.narrow(0, begin, count);
        at::Tensor logits_TV = buffer.narrow(0, 0, count);
        multiply_into(logits_TV, x, weight_VH.t(), /*add=*/false);
        const at::Tensor low = adapted ? low_TR->narrow(0, begin, count) : at::Tensor();
        if (adapted) multiply_into(logits_TV, low, b_VR->t(), /*add=*/true);
        loss += cross_entropy_(logits_TV, labels_T.narrow(0, begin, count),
                               weights_T.narrow(0, begin, count), with_gradient, cap);
        if (of_x) {
          multiply_into(grad_x.narrow(0, begin, count), logits_TV, weight_VH, /*add=*/false);
        }
        if (of_adapter) {
          multiply_into(grad_low.narrow(0, begin, count), logits_TV, *b_VR, /*add=*/false);
          grad_b.add_(product_tn(logits_TV, low));
        }
        if (!of_weight) continue;
        if (x.scalar_type() == type) {
          grad_weight.addmm_(logits_TV.t(), x);
        } else {
          grad_weight.add_(product_tn(logits_TV, x));
        }
      }
      if (of_weight) grad_weight = grad_weight.to(weight_VH.scalar_type());
      if (of_adapter) grad_b = grad_b.to(b_VR->scalar_type());
      ctx->save_for_backward({grad_x, grad_weight, grad_low, grad_b});
      ctx->saved_data["whole"] = false;
    }
    return at::scalar_tensor(loss, x_TH.options().dtype(type));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& grad = grads[0];
    const auto scaled = [&grad](const at::Tensor& x) {
      if (!x.defined()) return at::Tensor();
      if (grad.device().is_cpu() && grad.item<double>() == 1.0) return x;
      return x * grad.to(x.scalar_type());
    };
    variable_list result(9);
    const bool adapted = ctx->saved_data["adapted"].toBool();
    if (ctx->saved_data["whole"].toBool()) {
      const at::Tensor grad_logits = scaled(saved[2]);
      if (ctx->needs_input_grad(0)) result[0] = product_nn(grad_logits, saved[1]);
      if (ctx->needs_input_grad(1)) result[1] = weight_gradient(saved[1], grad_logits, saved[0]);
      if (adapted) {
        result[7] = product_nn(grad_logits, saved[4]);
        result[8] = weight_gradient(saved[4], grad_logits, saved[3]);
      }
    } else {
      result[0] = scaled(saved[0]);
      result[1] = scaled(saved[1]);
      result[7] = scaled(saved[2]);
      result[8] = scaled(saved[3]);
    }
    return result;
  }
};

}  // namespace

at::Tensor LossHead::loss(const at::Tensor& x_TH, const at::Tensor& labels_T,
                          const at::Tensor& mask_T, double loss_scale, const at::Tensor& low_TR) {
  const at::Tensor weights_T = mask_T.to(at::kDouble) * loss_scale;
  using Optional = std::optional<at::Tensor>;
  const bool adapted = low_TR.defined();
  return HeadLoss::apply(
      x_TH, weight->value, labels_T, weights_T, soft_cap,
      loss_chunk_tokens(x_TH.size(0), weight->value.size(0), chunks, /*cut=*/false),
      at::GradMode::is_enabled(), adapted ? Optional(low_TR) : Optional(),
      adapted ? Optional(adapters.b[0].value) : Optional());
}

at::Tensor LossHead::logits(const at::Tensor& x_TH) {
  const at::Tensor logits_TV = at::linear(x_TH, weight->value);
  return capped(adapters.added(logits_TV, adapters.low(x_TH), {logits_TV.size(1)}));
}

at::Tensor LossHead::capped(const at::Tensor& logits) const {
  return soft_cap > 0 ? (logits / soft_cap).tanh() * soft_cap : logits;
}

}  // namespace tessera
