#include "tessera/parallel/tensor/gathered_linear.h"

#include <ATen/ATen.h>

#include "tessera/comm/regions.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/parallel/custom_gradient.h"

namespace tessera {

// What the products over one input share in the backward pass.
struct GatheredInput::Regathered {
  at::Tensor slice;  // [T / size, I]
  ProcessGroup group;
  int products = 0;  // whose backward has not run
  at::Tensor full;   // [T, I], gathered again
  Work gathering;

  void start() {
    if (full.defined()) return;
    full = at::empty({slice.size(0) * group.size(), slice.size(1)}, slice.options());
    gathering = group.all_gather({full}, {slice});
  }
  at::Tensor take() {
    gathering.wait();
    at::Tensor result = full;
    if (--products == 0) full.reset();
    return result;
  }
};

GatheredInput::GatheredInput(const at::Tensor& x, const ProcessGroup& group)
    : regathered_(std::make_shared<Regathered>()),
      gathered_(gather_from_sp(x, x.size(0) * group.size(), group)) {
  regathered_->slice = x.detach();
  regathered_->group = group;
}

at::Tensor GatheredInput::linear(const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  at::Tensor y_TO;
  {
    const at::NoGradGuard no_grad;
    y_TO = product_nt(gathered_, weight_OI);
    if (bias_O.defined()) y_TO.add_(bias_O);
  }
  const bool of_weight = weight_OI.requires_grad();
  if (of_weight) ++regathered_->products;
  const bool of_bias = bias_O.defined() && bias_O.requires_grad();
  return custom_gradient({gathered_, weight_OI, bias_O}, y_TO,
                         [regathered = regathered_, weight = weight_OI, of_weight, of_bias,
                          of_x = gathered_.requires_grad()](const at::Tensor& grad_TO) {
                           if (of_weight) regathered->start();
                           at::Tensor grad_x = of_x ? product_nn(grad_TO, weight) : at::Tensor();
                           at::Tensor grad_bias = of_bias ? grad_TO.sum(0) : at::Tensor();
                           at::Tensor grad_weight =
                               of_weight ? weight_gradient(weight, grad_TO, regathered->take())
                                         : at::Tensor();
                           return std::vector<at::Tensor>{std::move(grad_x), std::move(grad_weight),
                                                          std::move(grad_bias)};
                         });
}

}  // namespace tessera
