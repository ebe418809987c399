#include "tessera/nn/experts/experts.h"

#include <ATen/ATen.h>

#include "tessera/nn/experts/grouped_linear.h"

namespace tessera {

namespace {

// Adds to each row the bias of its expert; `bias` [parts x E, O] is stacked as the matrices are.
at::Tensor with_bias(const at::Tensor& y, const Weight& bias,
                     const std::vector<int64_t>& rows_of_expert, int64_t parts) {
  if (!bias.present()) return y;
  const auto experts = static_cast<int64_t>(rows_of_expert.size());
  const at::Tensor by_expert =
      bias.value.unflatten(0, {parts, experts}).transpose(0, 1).flatten(1);  // [E, parts x O]
  const at::Tensor expert_of_row =
      at::repeat_interleave(at::tensor(rows_of_expert, at::kLong).to(y.device()));
  return y + by_expert.index_select(0, expert_of_row);
}

}  // namespace

at::Tensor Experts::forward(const at::Tensor& rows_RH,
                            const std::vector<int64_t>& rows_of_expert) const {
  const auto product = [&](const at::Tensor& x, const Weight& weight, const Adapters& adapters,
                           const Weight& bias, int64_t parts) {
    const at::Tensor y = adapters.added_by_group(
        grouped_linear(x, weight.value, rows_of_expert, parts), x, rows_of_expert, parts);
    return with_bias(y, bias, rows_of_expert, parts);
  };
  const at::Tensor both = product(rows_RH, gate_up, gate_up_adapters, gate_up_bias, 2);
  return product(gated_unit(both, unit), down, down_adapters, down_bias, 1);
}

std::vector<Weight*> Experts::weights() {
  std::vector<Weight*> all{&gate_up, &down};
  if (gate_up_bias.present()) all.push_back(&gate_up_bias);
  if (down_bias.present()) all.push_back(&down_bias);
  gate_up_adapters.add_weights(all);
  down_adapters.add_weights(all);
  return all;
}

}  // namespace tessera
