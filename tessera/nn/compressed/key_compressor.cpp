#include "tessera/nn/compressed/key_compressor.h"

#include <ATen/ATen.h>

#include <limits>

#include "tessera/nn/compressed/tail_rotary.h"
#include "tessera/nn/scalar_type.h"

// B rows, E entries of a row, m tokens of a group, C and D as in the header.

namespace tessera {

namespace {

// The rows that an entry is made of: first halves of the group before, second halves of its own.
// [B, E, m, 2 D] -> [B, E, 2 m, D]; what the first group lacks is `missing`.
at::Tensor with_group_before(const at::Tensor& x_BEmC, double missing) {
  const int64_t size = x_BEmC.size(3) / 2;
  const int64_t entries = x_BEmC.size(1);
  const at::Tensor first = x_BEmC.narrow(3, 0, size);
  const at::Tensor none = at::full_like(first.narrow(1, 0, 1), missing);
  const at::Tensor before = at::cat({none, first.narrow(1, 0, entries - 1)}, 1);
  return at::cat({before, x_BEmC.narrow(3, size, size)}, 2);
}

}  // namespace

at::Tensor KeyCompressor::forward(const at::Tensor& x_TH, const LayerContext& context) const {
  const int64_t rows = context.rows;
  const int64_t length = x_TH.size(0) / rows;
  const int64_t entries = length / ratio;
  const int64_t size = norm->weight.value.size(0);
  if (entries == 0) return at::zeros({rows, 0, size}, x_TH.options());
  const auto groups = [&](const at::Tensor& x_TC) {
    return x_TC.unflatten(0, {rows, length})
        .narrow(1, 0, entries * ratio)
        .unflatten(1, {entries, ratio});
  };
  const auto both = groups(value_gate->stacked(x_TH, context)).chunk(2, 3);
  const auto type = accumulation_type(x_TH.scalar_type());
  at::Tensor value = both[0];
  at::Tensor gate = both[1].to(type) + place_bias.value.to(type);
  if (overlaps) {
    value = with_group_before(value, 0);
    gate = with_group_before(gate, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor share = gate.softmax(2).to(value.scalar_type());
  const at::Tensor made = norm->forward((value * share).sum(2)).flatten(0, 1).unsqueeze(1);
  const auto of_first = [&](const at::Tensor& table) {
    return groups(table).select(2, 0).flatten(0, 1);
  };
  return rotate_tail(made, of_first(context.rope_cos), of_first(context.rope_sin))
      .squeeze(1)
      .unflatten(0, {rows, entries});
}

std::vector<Weight*> KeyCompressor::weights() {
  std::vector<Weight*> all = value_gate->weights();
  all.insert(all.end(), {&place_bias, &norm->weight});
  return all;
}

}  // namespace tessera
