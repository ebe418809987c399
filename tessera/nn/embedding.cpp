#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

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
    ctx->save_for_backward({ids_T});
    ctx->saved_data["rows"] = weight_VH.size(0);
    return at::embedding(weight_VH, ids_T);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto type = grads[0].scalar_type();
    const at::Tensor sums = at::embedding_dense_backward(
        grads[0].to(accumulation_type(type)), ctx->get_saved_variables()[0],
        ctx->saved_data["rows"].toInt(), /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
    return {sums.to(type), at::Tensor()};
  }
};

}  // namespace

at::Tensor Embedding::forward(const at::Tensor& ids_T) {
  return Lookup::apply(weight.value, ids_T);
}

}  // namespace tessera
