#include "tessera/nn/kernels/gated_unit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "tessera/nn/kernels/kernel_rows.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up_T2F,
                            const GatedUnit& unit) {
    const at::Tensor both = with_dense_rows(gate_up_T2F);
    const int64_t width = both.size(1) / 2;
    at::Tensor out_TF = at::empty({both.size(0), width}, both.options());
    dispatch_kernel(both.scalar_type(), [&]<typename T>(T) {
      over_rows(both.size(0), width, [&](int64_t begin, int64_t end) {
        kernels::gated_unit<T>(unit, const_rows<T>(both.narrow(1, 0, width)),
                               const_rows<T>(both.narrow(1, width, width)), width,
                               mutable_rows<T>(out_TF), begin, end);
      });
    });
    ctx->save_for_backward({gate_up_T2F});
    ctx->saved_data["unit"] = std::vector<double>{unit.slope, unit.cubic, unit.shift, unit.limit};
    return out_TF;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor both = with_dense_rows(ctx->get_saved_variables()[0]);
    const at::Tensor dout = with_dense_rows(grads[0]);
    const auto numbers = ctx->saved_data["unit"].toDoubleVector();
    const GatedUnit unit{numbers[0], numbers[1], numbers[2], numbers[3]};
    const int64_t width = both.size(1) / 2;
    at::Tensor dboth = at::empty(both.sizes(), both.options());
    dispatch_kernel(both.scalar_type(), [&]<typename T>(T) {
      over_rows(both.size(0), width, [&](int64_t begin, int64_t end) {
        kernels::gated_unit_backward<T>(unit, const_rows<T>(dout),
                                        const_rows<T>(both.narrow(1, 0, width)),
                                        const_rows<T>(both.narrow(1, width, width)), width,
                                        mutable_rows<T>(dboth.narrow(1, 0, width)),
                                        mutable_rows<T>(dboth.narrow(1, width, width)), begin, end);
      });
    });
    return {dboth, at::Tensor()};
  }
};

}  // namespace

at::Tensor gated_unit(const at::Tensor& gate_up_T2F, const GatedUnit& unit) {
  if (has_kernels(gate_up_T2F)) return Gated::apply(gate_up_T2F, unit);
  const auto halves = gate_up_T2F.chunk(2, 1);
  if (unit == GatedUnit{}) return at::silu(halves[0]) * halves[1];
  const at::Tensor gate = halves[0].clamp_max(unit.limit);
  const at::Tensor up = halves[1].clamp(-unit.limit, unit.limit);
  const at::Tensor inner = unit.slope * (gate + unit.cubic * gate * gate * gate);
  return gate * inner.sigmoid() * (up + unit.shift);
}

}  // namespace tessera
