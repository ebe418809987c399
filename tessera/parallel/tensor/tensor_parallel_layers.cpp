#include "tessera/parallel/tensor/tensor_parallel_layers.h"

#include <ATen/ATen.h>

#include "tessera/comm/regions.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/tensor/gathered_linear.h"
#include "tessera/parallel/tensor/overlapped_products.h"

namespace tessera {

ColumnProjections::ColumnProjections(Projections&& plain, ProcessGroup group, bool overlap)
    : Projections(std::move(plain)), group(std::move(group)), overlap(overlap) {}

// A works on this rank's tokens; its few columns are gathered. Every rank adds with its rows of B.
at::Tensor ColumnProjections::low(const at::Tensor& x_TI, const LayerContext& context) {
  if (!adapters.present()) return {};
  return gather_from_sp(adapters.low(x_TI, context), x_TI.size(0) * group.size(), group);
}

at::Tensor ColumnProjections::stacked(const at::Tensor& x_TI, const LayerContext& context) {
  const at::Tensor y_TO = overlap ? overlapped_column_product(x_TI, weight.value, bias.value, group)
                                  : GatheredInput(x_TI, group).linear(weight.value, bias.value);
  return adapters.added(y_TO, low(x_TI, context), part_rows);
}

void ColumnProjections::forward(const at::Tensor& x_TI, const LayerContext& context,
                                const Receive& receive) {
  if (!in_turn) {
    const auto outputs = stacked(x_TI, context).split_with_sizes(part_rows, 1);
    for (size_t part = 0; part < outputs.size(); ++part) receive(part, outputs[part]);
    return;
  }
  GatheredInput input(x_TI, group);
  const at::Tensor low_TR = low(x_TI, context);
  int64_t row = 0;
  for (size_t part = 0; part < part_rows.size(); ++part) {
    const int64_t rows = part_rows[part];
    const at::Tensor y_TO =
        input.linear(weight.value.narrow(0, row, rows),
                     bias.present() ? bias.value.narrow(0, row, rows) : at::Tensor());
    receive(part, adapters.added_to_part(part, y_TO, low_TR));
    row += rows;
  }
}

RowLinear::RowLinear(Linear&& plain, ProcessGroup group, bool overlap)
    : Linear(std::move(plain)), group(std::move(group)), overlap(overlap) {
  if (!adapters.present()) return;
  const int64_t in = weight.parts.front().shape.back();
  adapters.first_feature = part_of(in, this->group.size(), this->group.rank()).begin;
}

// A's product is a sum over the ranks, each with its columns; B is whole and works on this rank's
// tokens.
at::Tensor RowLinear::forward(const at::Tensor& x_TI, const LayerContext& context) {
  at::Tensor y_TO = overlap ? overlapped_row_product(x_TI, weight.value, group)
                            : scatter_to_sp(affine(x_TI, weight.value, {}), group);
  if (adapters.present()) {
    y_TO = adapters.added(y_TO, scatter_to_sp(adapters.low(x_TI, context), group), {y_TO.size(1)});
  }
  return bias.present() ? y_TO + bias.value : y_TO;
}

CutNorm::CutNorm(Norm&& plain, ProcessGroup group, int copies)
    : Norm(std::move(plain)), group(std::move(group)), copies(copies) {}

at::Tensor CutNorm::forward(const at::Tensor& x) {
  const auto width = static_cast<double>(weight.parts.front().shape.front() * copies);
  const at::Tensor wide = x.to(accumulation_type(x.scalar_type()));
  const at::Tensor mean = sum_over_members(wide.square().sum(-1, true), group) / width;
  return (wide * (mean + eps).rsqrt() * scale()).to(x.scalar_type());
}

VocabularyEmbedding::VocabularyEmbedding(Embedding&& plain, ProcessGroup group)
    : Embedding(std::move(plain)), group(std::move(group)) {}

at::Tensor VocabularyEmbedding::forward(const at::Tensor& ids_T) {
  const Range own = part_of(weight.parts.front().shape.front(), group.size(), group.rank());
  if (own.size() == 0) {  // a vocabulary smaller than the group
    const at::Tensor zeros = at::zeros({ids_T.size(0), weight.value.size(1)},
                                       weight.value.options().requires_grad(false));
    return scatter_to_sp(zeros + weight.value.sum(), group);
  }
  const at::Tensor other = (ids_T < own.begin).logical_or_(ids_T >= own.end);
  const at::Tensor rows_TH = Embedding::forward((ids_T - own.begin).masked_fill_(other, 0));
  return scatter_to_sp(rows_TH.masked_fill(other.unsqueeze(1), 0), group);
}

}  // namespace tessera
