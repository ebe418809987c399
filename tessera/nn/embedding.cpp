#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/nn/kernels/products.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A row of the gradient sums over all tokens with its id: in float32 also where the weights are
// narrower, rounded once at the end.
struct Lookup : torch::autograd::Function<Lookup> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight_VH,
                            const at::Tensor& ids_T) {
    ctx->save_for_backward({ids_T, weight_VH});
    return at::embedding(weight_VH, ids_T);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto type = grads[0].scalar_type();
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& ids_T = saved[0];
    const at::Tensor& weight_VH = saved[1];
    if (sums_gradient(weight_VH, type)) {
      weight_VH.mutable_grad().index_add_(0, ids_T, grads[0]);
      return {at::Tensor(), at::Tensor()};
    }
    const at::Tensor sums = at::embedding_dense_backward(
        grads[0].to(accumulation_type(type)), ids_T, weight_VH.size(0), /*padding_idx=*/-1,
        /*scale_grad_by_freq=*/false);
    return {sums.to(type), at::Tensor()};
  }
};

}  // namespace

at::Tensor Embedding::forward(const at::Tensor& ids_T) {
  return Lookup::apply(weight.value, ids_T);
}

}  // namespace tessera
