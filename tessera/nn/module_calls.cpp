#include "tessera/nn/module_calls.h"

namespace tessera {

ModuleCall norm_call(LayerModule module, std::unique_ptr<Norm>& norm) {
  ModuleCall call;
  call.module = module;
  call.weights = [&norm] { return std::vector<Weight*>{&norm->weight}; };
  call.body = [&norm](const Tensors& x, const LayerContext&) {
    return Tensors{norm->forward(x[0])};
  };
  return call;
}

ModuleCall linear_call(LayerModule module, std::unique_ptr<Linear>& linear) {
  ModuleCall call;
  call.module = module;
  call.weights = [&linear] { return linear->weights(); };
  call.body = [&linear](const Tensors& x, const LayerContext& context) {
    return Tensors{linear->forward(x[0], context)};
  };
  return call;
}

ModuleCall stacked_call(LayerModule module, std::unique_ptr<Projections>& projections) {
  ModuleCall call;
  call.module = module;
  call.weights = [&projections] { return projections->weights(); };
  call.body = [&projections](const Tensors& x, const LayerContext& context) {
    return Tensors{projections->stacked(x[0], context)};
  };
  return call;
}

ModuleCall core_call(std::unique_ptr<CoreAttention>& core) {
  ModuleCall call;
  call.module = LayerModule::kCore;
  call.weights = [&core] {
    return core->sinks.present() ? std::vector<Weight*>{&core->sinks} : std::vector<Weight*>();
  };
  call.body = [&core](const Tensors& inputs, const LayerContext& context) {
    const auto attention = core->begin(context);
    attention->offer(AttentionInput::kQuery, inputs[0]);
    attention->offer(AttentionInput::kKey, inputs[1]);
    attention->offer(AttentionInput::kValue, inputs[2]);
    return Tensors{attention->attend()};
  };
  return call;
}

std::vector<Weight*> weights_of(const std::vector<ModuleCall*>& calls) {
  std::vector<Weight*> all;
  for (ModuleCall* call : calls) {
    for (Weight* weight : call->weights()) all.push_back(weight);
  }
  return all;
}

}  // namespace tessera
