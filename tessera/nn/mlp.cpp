#include "tessera/nn/mlp.h"

#include <ATen/ATen.h>

#include "tessera/nn/kernels/swiglu.h"

namespace tessera {

namespace {

std::vector<Weight*> present(Weight& weight, Weight& bias) {
  std::vector<Weight*> all{&weight};
  if (bias.present()) all.push_back(&bias);
  return all;
}

}  // namespace

Mlp::Mlp() {
  gate_up_call.module = LayerModule::kGateUp;
  gate_up_call.weights = [this] { return present(gate_up_proj->weight, gate_up_proj->bias); };
  gate_up_call.body = [this](const Tensors& x, const LayerContext&) {
    return Tensors{gate_up_proj->stacked(x[0])};
  };
  down_call.module = LayerModule::kDown;
  down_call.weights = [this] { return present(down_proj->weight, down_proj->bias); };
  down_call.body = [this](const Tensors& x, const LayerContext&) {
    return Tensors{down_proj->forward(x[0])};
  };
}

FeedForward::Output Mlp::forward(const at::Tensor& x_TH, const LayerContext& context) {
  return {down_call({swiglu(gate_up_call({x_TH}, context)[0])}, context)[0], {}};
}

std::vector<Weight*> Mlp::weights() {
  std::vector<Weight*> all = gate_up_call.weights();
  for (Weight* weight : down_call.weights()) all.push_back(weight);
  return all;
}

std::vector<ModuleCall*> Mlp::modules() { return {&gate_up_call, &down_call}; }

}  // namespace tessera
