#include <ATen/ATen.h>

#include "tessera/nn/kernels/products.h"
#include "tessera/nn/seams.h"

namespace tessera {

at::Tensor Linear::forward(const at::Tensor& x_TI) {
  return affine(x_TI, weight.value, bias.value);
}

at::Tensor Projections::stacked(const at::Tensor& x_TI) {
  return affine(x_TI, weight.value, bias.value);
}

void Projections::forward(const at::Tensor& x_TI, const Receive& receive) {
  if (in_turn) {
    int64_t row = 0;
    for (size_t part = 0; part < part_rows.size(); ++part) {
      const int64_t rows = part_rows[part];
      receive(part, affine(x_TI, weight.value.narrow(0, row, rows),
                           bias.present() ? bias.value.narrow(0, row, rows) : at::Tensor()));
      row += rows;
    }
    return;
  }
  const auto outputs = stacked(x_TI).split_with_sizes(part_rows, 1);
  for (size_t part = 0; part < outputs.size(); ++part) receive(part, outputs[part]);
}

}  // namespace tessera
