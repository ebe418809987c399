#include "tessera/nn/kernels/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/nn/kernels/kernel_rows.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Swiglu : torch::autograd::Function<Swiglu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up_T2F) {
    const at::Tensor both = with_dense_rows(gate_up_T2F);
    const int64_t width = both.size(1) / 2;
    at::Tensor out_TF = at::empty({both.size(0), width}, both.options());
    dispatch_kernel(both.scalar_type(), [&]<typename T>(T) {
      over_rows(both.size(0), width, [&](int64_t begin, int64_t end) {
        kernels::swiglu<T>(const_rows<T>(both.narrow(1, 0, width)),
                           const_rows<T>(both.narrow(1, width, width)), width,
                           mutable_rows<T>(out_TF), begin, end);
      });
    });
    ctx->save_for_backward({gate_up_T2F});
    return out_TF;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor both = with_dense_rows(ctx->get_saved_variables()[0]);
    const at::Tensor dout = with_dense_rows(grads[0]);
    const int64_t width = both.size(1) / 2;
    at::Tensor dboth = at::empty(both.sizes(), both.options());
    dispatch_kernel(both.scalar_type(), [&]<typename T>(T) {
      over_rows(both.size(0), width, [&](int64_t begin, int64_t end) {
        kernels::swiglu_backward<T>(const_rows<T>(dout), const_rows<T>(both.narrow(1, 0, width)),
                                    const_rows<T>(both.narrow(1, width, width)), width,
                                    mutable_rows<T>(dboth.narrow(1, 0, width)),
                                    mutable_rows<T>(dboth.narrow(1, width, width)), begin, end);
      });
    });
    return {dboth};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up_T2F) {
  if (has_kernels(gate_up_T2F)) return Swiglu::apply(gate_up_T2F);
  const auto halves = gate_up_T2F.chunk(2, 1);
  return at::silu(halves[0]) * halves[1];
}

}  // namespace tessera
