#include <ATen/ATen.h>

#include "tessera/nn/kernels/products.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

std::vector<Weight*> all_of(Weight& weight, Weight& bias, Adapters& adapters) {
  std::vector<Weight*> all{&weight};
  if (bias.present()) all.push_back(&bias);
  adapters.add_weights(all);
  return all;
}

}  // namespace

at::Tensor Linear::forward(const at::Tensor& x_TI, const LayerContext& context) {
  const at::Tensor y = affine(x_TI, weight.value, bias.value);
  return adapters.added(y, adapters.low(x_TI, context), {y.size(1)});
}

std::vector<Weight*> Linear::weights() { return all_of(weight, bias, adapters); }

at::Tensor Projections::stacked(const at::Tensor& x_TI, const LayerContext& context) {
  return adapters.added(affine(x_TI, weight.value, bias.value), adapters.low(x_TI, context),
                        part_rows);
}

void Projections::forward(const at::Tensor& x_TI, const LayerContext& context,
                          const Receive& receive) {
  if (in_turn) {
    const at::Tensor low = adapters.low(x_TI, context);
    int64_t row = 0;
    for (size_t part = 0; part < part_rows.size(); ++part) {
      const int64_t rows = part_rows[part];
      receive(part, adapters.added_to_part(
                        part,
                        affine(x_TI, weight.value.narrow(0, row, rows),
                               bias.present() ? bias.value.narrow(0, row, rows) : at::Tensor()),
                        low));
      row += rows;
    }
    return;
  }
  const auto outputs = stacked(x_TI, context).split_with_sizes(part_rows, 1);
  for (size_t part = 0; part < outputs.size(); ++part) receive(part, outputs[part]);
}

std::vector<Weight*> Projections::weights() { return all_of(weight, bias, adapters); }

}  // namespace tessera
