#include "tessera/nn/attention/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/nn/kernels/kernel_rows.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TND, const at::Tensor& cos,
                            const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    at::Tensor y_TND = at::empty(x_TND.sizes(), x_TND.options());
    rotate_into(with_dense_rows(x_TND), cos, sin, 1, y_TND);
    return y_TND;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    at::Tensor dx_TND = at::empty(grads[0].sizes(), grads[0].options());
    rotate_into(with_dense_rows(grads[0]), saved[0], saved[1], -1, dx_TND);
    return {dx_TND, at::Tensor(), at::Tensor()};
  }
};

at::Tensor composed_rotary(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = cos.size(1);
  const auto sums = accumulation_type(cos.scalar_type());
  const at::Tensor wide = x_TND.to(cos.scalar_type()).to(sums);
  const at::Tensor c = cos.unsqueeze(1).to(sums);
  const at::Tensor s = sin.unsqueeze(1).to(sums);
  const at::Tensor low = wide.narrow(2, 0, half);
  const at::Tensor high = wide.narrow(2, half, half);
  std::vector<at::Tensor> pieces{low * c - high * s, high * c + low * s};
  const int64_t rest = x_TND.size(2) - 2 * half;
  if (rest > 0) pieces.push_back(wide.narrow(2, 2 * half, rest));
  return at::cat(pieces, 2).to(cos.scalar_type()).to(x_TND.scalar_type());
}

}  // namespace

at::Tensor apply_rotary(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin) {
  return has_rotary_kernel(x_TND, cos) ? Rotary::apply(x_TND, cos, sin)
                                       : composed_rotary(x_TND, cos, sin);
}

bool has_rotary_kernel(const at::Tensor& x_TND, const at::Tensor& cos) {
  const auto type = x_TND.scalar_type();
  return has_kernels(x_TND) &&
         (cos.scalar_type() == type || cos.scalar_type() == accumulation_type(type));
}

void rotate_into(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin,
                 int direction, const at::Tensor& y_TND) {
  const auto wide = accumulation_type(x_TND.scalar_type());
  const at::Tensor c = cos.to(wide).contiguous();
  const at::Tensor s = sin.to(wide).contiguous();
  const int64_t heads = x_TND.size(1);
  const int64_t width = x_TND.size(2);
  dispatch_kernel(x_TND.scalar_type(), [&]<typename T>(T) {
    using W = kernels::Wide<T>;
    over_rows(x_TND.size(0) * heads, width, [&](int64_t begin, int64_t end) {
      kernels::rotate<T>(const_rows<T>(x_TND), width, c.size(1), heads, c.const_data_ptr<W>(),
                         s.const_data_ptr<W>(), direction, mutable_rows<T>(y_TND), begin, end);
    });
  });
}

}  // namespace tessera
