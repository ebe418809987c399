#include "tessera/nn/experts/grouped_linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/products.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// f(group, first row, rows) for the groups that have some.
template <typename F>
void over_groups(const std::vector<int64_t>& rows_of_group, const F& f) {
  int64_t first = 0;
  for (size_t group = 0; group < rows_of_group.size(); ++group) {
    if (rows_of_group[group] > 0) f(static_cast<int64_t>(group), first, rows_of_group[group]);
    first += rows_of_group[group];
  }
}

// One product per group, written to its place. (On the CPU libtorch's grouped product is the same
// loop, for fewer types.)
struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::vector<int64_t>& rows_of_group, int64_t parts) {
    const auto groups = static_cast<int64_t>(rows_of_group.size());
    const int64_t out = weight.size(1);
    at::Tensor y = at::empty({x.size(0), parts * out}, x.options());
    over_groups(rows_of_group, [&](int64_t group, int64_t first, int64_t rows) {
      for (int64_t part = 0; part < parts; ++part) {
        multiply_into(y.narrow(0, first, rows).narrow(1, part * out, out), x.narrow(0, first, rows),
                      weight.select(0, part * groups + group).t(), /*add=*/false);
      }
    });
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    ctx->saved_data["x"] = x.sizes().vec();
    ctx->saved_data["rows"] = rows_of_group;
    ctx->saved_data["parts"] = parts;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const auto rows_of_group = ctx->saved_data["rows"].toIntVector();
    const int64_t parts = ctx->saved_data["parts"].toInt();
    const auto groups = static_cast<int64_t>(rows_of_group.size());
    const int64_t out = weight.size(1);
    const at::Tensor dy = grads[0].contiguous();
    variable_list result(4);
    if (ctx->needs_input_grad(0)) {
      result[0] = at::empty(ctx->saved_data["x"].toIntVector(), dy.options());
      over_groups(rows_of_group, [&](int64_t group, int64_t first, int64_t rows) {
        const at::Tensor to = result[0].narrow(0, first, rows);
        for (int64_t part = 0; part < parts; ++part) {
          const at::Tensor from = dy.narrow(0, first, rows).narrow(1, part * out, out);
          multiply_into(to, from, weight.select(0, part * groups + group), /*add=*/part > 0);
        }
      });
    }
    if (ctx->needs_input_grad(1)) {
      result[1] = at::empty(weight.sizes(), weight.options());
      for (int64_t group = 0; group < groups; ++group) {
        if (rows_of_group[static_cast<size_t>(group)] > 0) continue;
        for (int64_t part = 0; part < parts; ++part) {
          result[1].select(0, part * groups + group).zero_();
        }
      }
      over_groups(rows_of_group, [&](int64_t group, int64_t first, int64_t rows) {
        for (int64_t part = 0; part < parts; ++part) {
          multiply_into(result[1].select(0, part * groups + group),
                        dy.narrow(0, first, rows).narrow(1, part * out, out).t(),
                        x.narrow(0, first, rows), /*add=*/false);
        }
      });
    }
    return result;
  }
};

}  // namespace

bool has_grouped_product(const at::Tensor& x_RI, const at::Tensor& weight) {
  const auto type = x_RI.scalar_type();
  const auto aligned = [&](int64_t elements) {
    return elements * static_cast<int64_t>(x_RI.element_size()) % 16 == 0;
  };
  return (type == at::kFloat || type == at::kBFloat16) && weight.scalar_type() == type &&
         aligned(weight.size(1)) && aligned(weight.size(2));
}

at::Tensor grouped_linear_by_kernel(const at::Tensor& x_RI, const at::Tensor& weight,
                                    const std::vector<int64_t>& rows_of_group, int64_t parts) {
  at::Tensor ends = at::empty({static_cast<int64_t>(rows_of_group.size())}, at::kInt);
  int32_t sum = 0;
  for (size_t group = 0; group < rows_of_group.size(); ++group) {
    sum += static_cast<int32_t>(rows_of_group[group]);
    ends.mutable_data_ptr<int32_t>()[group] = sum;
  }
  ends = ends.to(x_RI.device());
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& matrices : weight.chunk(parts)) {
    outputs.push_back(at::_grouped_mm(x_RI, matrices.transpose(1, 2), ends));
  }
  return parts == 1 ? outputs[0] : at::cat(outputs, 1);
}

at::Tensor grouped_linear(const at::Tensor& x_RI, const at::Tensor& weight,
                          const std::vector<int64_t>& rows_of_group, int64_t parts) {
  TESSERA_CHECK_EQ(weight.size(0), parts * static_cast<int64_t>(rows_of_group.size()),
                   "matrices of a grouped product");
  if (!x_RI.device().is_cpu() && has_grouped_product(x_RI, weight)) {
    return grouped_linear_by_kernel(x_RI, weight, rows_of_group, parts);
  }
  return GroupedLinear::apply(x_RI, weight, rows_of_group, parts);
}

}  // namespace tessera
