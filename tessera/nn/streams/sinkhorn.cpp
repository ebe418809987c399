#include "tessera/nn/streams/sinkhorn.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor iterate(const at::Tensor& logits_TNN, int64_t iterations, double eps) {
  const auto divided = [eps](const at::Tensor& m, int64_t dim) {
    return m / (m.sum(dim, /*keepdim=*/true) + eps);
  };
  at::Tensor m = divided(logits_TNN.softmax(-1) + eps, -2);
  for (int64_t i = 1; i < iterations; ++i) m = divided(divided(m, -1), -2);
  return m;
}

struct Sinkhorn : torch::autograd::Function<Sinkhorn> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits, int64_t iterations,
                            double eps) {
    ctx->save_for_backward({logits});
    ctx->saved_data["iterations"] = iterations;
    ctx->saved_data["eps"] = eps;
    return iterate(logits, iterations, eps);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::AutoGradMode with_gradients(true);
    const at::Tensor logits = ctx->get_saved_variables()[0].detach().requires_grad_(true);
    const at::Tensor again =
        iterate(logits, ctx->saved_data["iterations"].toInt(), ctx->saved_data["eps"].toDouble());
    const auto gradient = torch::autograd::grad({again}, {logits}, {grads[0]});
    return {gradient[0], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor sinkhorn(const at::Tensor& logits_TNN, int64_t iterations, double eps) {
  return Sinkhorn::apply(logits_TNN, iterations, eps);
}

}  // namespace tessera
