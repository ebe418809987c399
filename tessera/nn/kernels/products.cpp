#include "tessera/nn/kernels/products.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/config/cpu_features.h"
#include "tessera/nn/kernels/widened_product.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool has_avx512() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

// libtorch multiplies float32 matrices by MKL, which keeps its AVX-512 kernels for one maker's
// processors; oneDNN, in the same library, has them for all. Measured on another maker's: a tenth
// faster where both matrices are read as they lie, no faster with AVX2 nor for dy^T x.
bool by_onednn(const at::Tensor& a, const at::Tensor& b) {
  static const bool faster = has_avx512();
  const auto plain = [](const at::Tensor& x) {
    return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
           x.is_contiguous();
  };
  return faster && plain(a) && plain(b);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (!is_widened(a)) return at::mm(a, b);
  const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  widened_product(out, a, b, /*add=*/false);
  return out;
}

// x W^T, where W may be a transposed view.
at::Tensor onednn_product(const at::Tensor& x, const at::Tensor& weight) {
  using Product = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                             std::string_view, c10::List<std::optional<at::Scalar>>,
                             std::optional<std::string_view>);
  static const auto product = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                  .typed<Product>();
  return product.call(x, weight, std::nullopt, "none", c10::List<std::optional<at::Scalar>>(), "");
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TI,
                            const at::Tensor& weight_OI, const std::optional<at::Tensor>& bias_O) {
    ctx->save_for_backward({weight_OI.requires_grad() ? x_TI : at::Tensor(), weight_OI});
    ctx->saved_data["bias"] = bias_O.has_value();
    at::Tensor y_TO = product_nt(x_TI, weight_OI);
    return bias_O ? y_TO.add_(*bias_O) : y_TO;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x_TI = saved[0];
    const at::Tensor& weight_OI = saved[1];
    const at::Tensor& dy_TO = grads[0];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[0] = product_nn(dy_TO, weight_OI);
    if (ctx->needs_input_grad(1)) result[1] = weight_gradient(weight_OI, dy_TO, x_TI);
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) result[2] = dy_TO.sum(0);
    return result;
  }
};

}  // namespace

bool is_widened(const at::Tensor& x) {
  static const bool has_units = cpu_has_bfloat16();
  return !has_units && x.device().is_cpu() && x.scalar_type() == at::kBFloat16;
}

void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (is_widened(a)) return widened_product(out, a, b, add);
  at::Tensor to = out;
  if (add) {
    to.addmm_(a, b);
  } else {
    at::mm_out(to, a, b);
  }
}

at::Tensor product_nt(const at::Tensor& x_TI, const at::Tensor& weight_OI) {
  if (by_onednn(x_TI, weight_OI)) return onednn_product(x_TI, weight_OI);
  return product(x_TI, weight_OI.t());
}

at::Tensor product_nn(const at::Tensor& dy_TO, const at::Tensor& weight_OI) {
  if (by_onednn(dy_TO, weight_OI)) return onednn_product(dy_TO, weight_OI.t());
  return product(dy_TO, weight_OI);
}

at::Tensor product_tn(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  return product(dy_TO.t(), x_TI);
}

bool sums_gradient(const at::Tensor& weight, at::ScalarType type) {
  return weight.is_leaf() && weight.grad().defined() && weight.grad().scalar_type() == type;
}

at::Tensor weight_gradient(const at::Tensor& weight_OI, const at::Tensor& dy_TO,
                           const at::Tensor& x_TI) {
  if (!sums_gradient(weight_OI, dy_TO.scalar_type())) return product_tn(dy_TO, x_TI);
  multiply_into(weight_OI.mutable_grad(), dy_TO.t(), x_TI, /*add=*/true);
  return {};
}

at::Tensor affine(const at::Tensor& x_TI, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  const auto bias = bias_O.defined() ? std::optional<at::Tensor>(bias_O) : std::nullopt;
  return LinearFunction::apply(x_TI, weight_OI, bias);
}

}  // namespace tessera
