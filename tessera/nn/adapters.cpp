#include "tessera/nn/adapters.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/nn/dropout.h"
#include "tessera/nn/experts/grouped_linear.h"
#include "tessera/nn/kernels/products.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// y[:, first : first + columns of x] += x, in place. The gradient of y passes through as it is.
struct AddColumns : torch::autograd::Function<AddColumns> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, const at::Tensor& x,
                            int64_t first) {
    ctx->saved_data["first"] = first;
    ctx->saved_data["columns"] = x.size(1);
    y.narrow(1, first, x.size(1)).add_(x);
    ctx->mark_dirty({y});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const int64_t first = ctx->saved_data["first"].toInt();
    const int64_t columns = ctx->saved_data["columns"].toInt();
    return {grads[0], grads[0].narrow(1, first, columns), at::Tensor()};
  }
};

}  // namespace

void Adapters::add_weights(std::vector<Weight*>& all) {
  if (!present()) return;
  all.push_back(&a);
  for (Weight& weight : b) all.push_back(&weight);
}

at::Tensor Adapters::low(const at::Tensor& x_TI, const LayerContext& context) const {
  if (!present()) return {};
  return low(dropout_of_columns(x_TI, dropout, site, context, first_feature));
}

at::Tensor Adapters::low(const at::Tensor& x_TI) const {
  return present() ? affine(x_TI, a.value, {}) * scale : at::Tensor();
}

at::Tensor Adapters::added(const at::Tensor& y_TO, const at::Tensor& low_TR,
                           const std::vector<int64_t>& part_rows) const {
  if (!present()) return y_TO;
  const auto lows = low_TR.chunk(static_cast<int64_t>(parts.size()), 1);
  at::Tensor y = y_TO;
  int64_t first = 0;
  size_t next = 0;
  for (size_t part = 0; part < part_rows.size() && next < parts.size(); ++part) {
    if (parts[next] == part) {
      y = AddColumns::apply(y, affine(lows[next], b[next].value, {}), first);
      ++next;
    }
    first += part_rows[part];
  }
  return y;
}

at::Tensor Adapters::added_to_part(size_t part, const at::Tensor& y_TO,
                                   const at::Tensor& low_TR) const {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != part) continue;
    const auto lows = low_TR.chunk(static_cast<int64_t>(parts.size()), 1);
    return AddColumns::apply(y_TO, affine(lows[i], b[i].value, {}), 0);
  }
  return y_TO;
}

at::Tensor Adapters::added_by_group(const at::Tensor& y_RO, const at::Tensor& x_RI,
                                    const std::vector<int64_t>& rows_of_group,
                                    int64_t all_parts) const {
  if (!present()) return y_RO;
  const auto adapted = static_cast<int64_t>(parts.size());
  const at::Tensor low = grouped_linear(x_RI, a.value, rows_of_group, adapted) * scale;
  const auto lows = low.chunk(adapted, 1);
  const int64_t columns = y_RO.size(1) / all_parts;
  at::Tensor y = y_RO;
  for (size_t i = 0; i < parts.size(); ++i) {
    y = AddColumns::apply(y, grouped_linear(lows[i].contiguous(), b[i].value, rows_of_group),
                          static_cast<int64_t>(parts[i]) * columns);
  }
  return y;
}

}  // namespace tessera
