#include "tessera/nn/mlp.h"

#include <ATen/ATen.h>

namespace tessera {

FeedForward::Output Mlp::forward(const at::Tensor& x_TH, const LayerContext& context) {
  return {down_call({gated_unit(gate_up_call({x_TH}, context)[0], unit)}, context)[0], {}};
}

std::vector<Weight*> Mlp::weights() { return weights_of(modules()); }

std::vector<ModuleCall*> Mlp::modules() { return {&gate_up_call, &down_call}; }

}  // namespace tessera
