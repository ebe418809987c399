#include "tessera/nn/attention/split_heads.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/base/error.h"
#include "tessera/nn/attention/rotary.h"
#include "tessera/nn/kernels/kernel_rows.h"
#include "tessera/nn/kernels/rms_norm.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Columns [first, first + rows) of x [T, S] as [T, rows / D, D]: the same memory, but unrelated to
// x for autograd.
at::Tensor heads_of(const at::Tensor& x, int64_t first, int64_t rows, int64_t head_dim) {
  return at::empty({0}, x.options())
      .set_(x.storage(), x.storage_offset() + first, {x.size(0), rows / head_dim, head_dim},
            {x.stride(0), head_dim, 1});
}

struct SplitHeads : torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& input,
                               const std::optional<at::Tensor>& q_weight,
                               const std::optional<at::Tensor>& k_weight, const at::Tensor& cos,
                               const at::Tensor& sin, const std::vector<int64_t>& part_rows,
                               int64_t head_dim, double q_eps, double k_eps) {
    const at::Tensor qkv = input.stride(1) == 1 ? input : input.contiguous();
    variable_list out;
    int64_t first = 0;
    for (const int64_t rows : part_rows) {
      out.push_back(heads_of(qkv, first, rows, head_dim));
      first += rows;
    }
    const bool normed = q_weight.has_value();
    at::Tensor q_inverse, k_inverse;
    for (size_t i = 0; i < 2; ++i) {
      if (normed) {
        at::Tensor y = at::empty(out[i].sizes(), out[i].options());
        (i == 0 ? q_inverse : k_inverse) =
            rms_norm_into(out[i], i == 0 ? *q_weight : *k_weight, i == 0 ? q_eps : k_eps, y);
        out[i] = y;
      }
      rotate_into(out[i], cos, sin, 1, out[i]);
    }
    ctx->save_for_backward({cos, sin, normed ? qkv : at::Tensor(), q_weight.value_or(at::Tensor()),
                            k_weight.value_or(at::Tensor()), q_inverse, k_inverse});
    ctx->saved_data["part_rows"] = part_rows;
    ctx->saved_data["head_dim"] = head_dim;
    ctx->saved_data["tokens"] = qkv.size(0);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto part_rows = ctx->saved_data["part_rows"].toIntVector();
    const int64_t head_dim = ctx->saved_data["head_dim"].toInt();
    const int64_t tokens = ctx->saved_data["tokens"].toInt();
    const at::Tensor& qkv = saved[2];
    at::TensorOptions options;
    for (const at::Tensor& grad : grads) {
      if (grad.defined()) options = grad.options();
    }
    int64_t columns = 0;
    for (const int64_t rows : part_rows) columns += rows;
    at::Tensor dqkv = at::empty({tokens, columns}, options);
    variable_list result(9);
    int64_t first = 0;
    for (size_t i = 0; i < part_rows.size(); ++i) {
      const int64_t rows = part_rows[i];
      const at::Tensor to = heads_of(dqkv, first, rows, head_dim);
      if (!grads[i].defined()) {
        to.zero_();
      } else if (i == 2) {
        to.copy_(grads[i]);
      } else if (qkv.defined()) {
        const at::Tensor unrotated = at::empty(to.sizes(), options);
        rotate_into(with_dense_rows(grads[i]), saved[0], saved[1], -1, unrotated);
        result[1 + i] = rms_norm_backward_into(unrotated, heads_of(qkv, first, rows, head_dim),
                                               saved[3 + i], saved[5 + i], to);
      } else {
        rotate_into(with_dense_rows(grads[i]), saved[0], saved[1], -1, to);
      }
      first += rows;
    }
    result[0] = dqkv;
    return result;
  }
};

}  // namespace

std::array<at::Tensor, 3> split_heads(const at::Tensor& qkv, const std::vector<int64_t>& part_rows,
                                      int64_t head_dim, const HeadNorm& q_norm,
                                      const HeadNorm& k_norm, const at::Tensor& cos,
                                      const at::Tensor& sin) {
  TESSERA_CHECK_EQ(part_rows.size(), size_t{3});
  TESSERA_CHECK(q_norm.weight.defined() == k_norm.weight.defined(),
                "norms on both of q and k or on none");
  if (has_rotary_kernel(qkv, cos)) {
    // An undefined tensor is no argument of a function; an absent one is.
    const auto given = [](const at::Tensor& x) {
      return x.defined() ? std::optional(x) : std::nullopt;
    };
    const variable_list out =
        SplitHeads::apply(qkv, given(q_norm.weight), given(k_norm.weight), cos, sin, part_rows,
                          head_dim, q_norm.eps, k_norm.eps);
    return {out[0], out[1], out[2]};
  }
  const auto parts = qkv.split_with_sizes(part_rows, 1);
  std::array<at::Tensor, 3> heads;
  for (size_t i = 0; i < 3; ++i) {
    heads[i] = parts[i].unflatten(1, {-1, head_dim});
    if (i == 2) break;
    const HeadNorm& norm = i == 0 ? q_norm : k_norm;
    if (norm.weight.defined()) heads[i] = rms_norm(heads[i], norm.weight, norm.eps);
    heads[i] = apply_rotary(heads[i], cos, sin);
  }
  return heads;
}

}  // namespace tessera
