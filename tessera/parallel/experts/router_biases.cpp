#include "tessera/parallel/experts/router_biases.h"

#include <ATen/ATen.h>

#include <functional>

#include "tessera/layout/model_spec.h"
#include "tessera/layout/placement.h"
#include "tessera/nn/experts/moe.h"

namespace tessera {
namespace {

void for_each_router(Decoder& decoder, const std::function<void(int64_t layer, Router&)>& visit) {
  for (const DecoderLayer* layer : decoder.all_layers()) {
    const auto* moe = dynamic_cast<const MixtureOfExperts*>(layer->mlp.get());
    if (moe != nullptr && moe->router->bias.defined()) visit(layer->index, *moe->router);
  }
}

}  // namespace

void add_router_biases(ParallelModel& model, Decoder& decoder, const ModelConfig& config,
                       const DeviceMesh& mesh) {
  const std::vector<ParamSpec> all = model_spec(config);
  for_each_router(decoder, [&](int64_t layer, Router& router) {
    for (const ParamSpec& spec : all) {
      if (spec.layer != layer || spec.role != ParamRole::kRouterBias) continue;
      const Placement placement = place_parameter(spec.role, config, mesh.dims());
      ShardedParam row;
      row.name = spec.name;
      row.shape = spec.shape;
      row.role = spec.role;
      row.cuts = placement.cuts;
      row.partial = placement.partial;
      row.trainable = spec.trainable;
      row.value = router.bias = router.bias.to(mesh.device());
      model.table.add(std::move(row), mesh);
    }
  });
}

void update_router_biases(ParallelModel& model, const at::Tensor& tokens_per_expert,
                          const ModelConfig& config) {
  if (config.lora.is_given()) return;  // frozen
  for (const auto& decoder : model.decoders) {
    for_each_router(*decoder, [&](int64_t layer, Router& router) {
      at::Tensor bias = router.bias;
      const at::Tensor counts = tokens_per_expert[layer].to(bias.device());
      bias.add_((counts.mean() - counts).sign().to(bias.scalar_type()),
                config.moe_router_bias_update_rate);
    });
  }
}

}  // namespace tessera
