#include "tessera/nn/kernels/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/nn/kernels/kernel_rows.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRowsOfABlock = 128;

int64_t count_rows(const at::Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const at::Tensor rows = with_dense_rows(x);
    at::Tensor y = at::empty(x.sizes(), x.options());
    const at::Tensor inverse = rms_norm_into(rows, weight, eps, y);
    ctx->save_for_backward({x, weight, inverse});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    at::Tensor dx = at::empty(saved[0].sizes(), saved[0].options());
    const at::Tensor dweight = rms_norm_backward_into(
        with_dense_rows(grads[0]), with_dense_rows(saved[0]), saved[1], saved[2], dx);
    return {dx, dweight, at::Tensor()};
  }
};

at::Tensor composed_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto type = accumulation_type(at::promote_types(x.scalar_type(), weight.scalar_type()));
  const at::Tensor wide = x.to(type);
  const at::Tensor scale = wide.square().mean(-1, true).add(eps).rsqrt();
  return (wide * scale * weight.to(type)).to(x.scalar_type());
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!has_kernels(x)) return composed_rms_norm(x, weight, eps);
  return RmsNorm::apply(x, weight, eps);
}

at::Tensor rms_norm_into(const at::Tensor& x, const at::Tensor& weight, double eps,
                         const at::Tensor& y) {
  const auto wide = accumulation_type(x.scalar_type());
  const at::Tensor w = weight.to(wide).contiguous();
  const int64_t width = x.size(-1);
  at::Tensor inverse = at::empty({count_rows(x)}, x.options().dtype(wide));
  dispatch_kernel(x.scalar_type(), [&]<typename T>(T) {
    using W = kernels::Wide<T>;
    over_rows(inverse.numel(), width, [&](int64_t begin, int64_t end) {
      kernels::rms_norm<T>(const_rows<T>(x), width, w.const_data_ptr<W>(), eps, mutable_rows<T>(y),
                           inverse.mutable_data_ptr<W>(), begin, end);
    });
  });
  return inverse;
}

at::Tensor rms_norm_backward_into(const at::Tensor& dy, const at::Tensor& x,
                                  const at::Tensor& weight, const at::Tensor& inverse,
                                  const at::Tensor& dx) {
  const auto wide = accumulation_type(x.scalar_type());
  const at::Tensor w = weight.to(wide).contiguous();
  const int64_t width = x.size(-1);
  const int64_t rows = inverse.numel();
  const int64_t blocks = (rows + kRowsOfABlock - 1) / kRowsOfABlock;
  at::Tensor partial = at::zeros({blocks, width}, x.options().dtype(wide));
  dispatch_kernel(x.scalar_type(), [&]<typename T>(T) {
    using W = kernels::Wide<T>;
    over_rows(blocks, kRowsOfABlock * width, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        kernels::rms_norm_backward<T>(
            const_rows<T>(dy), const_rows<T>(x), width, w.const_data_ptr<W>(),
            inverse.const_data_ptr<W>(), mutable_rows<T>(dx),
            partial.mutable_data_ptr<W>() + block * width, block * kRowsOfABlock,
            std::min(rows, (block + 1) * kRowsOfABlock));
      }
    });
  });
  return partial.sum(0, /*keepdim=*/false, at::kDouble).to(weight.scalar_type());
}

}  // namespace tessera
