#include "tessera/optim/optimizer.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/weight_decay.h"

namespace tessera {

Optimizer::Optimizer(const OptimizerConfig& config, ParamTable& table)
    : config_(config), table_(table), groups_{{config.weight_decay, {}}, {0.0, {}}} {
  TESSERA_CHECK(config.kind != nullptr, "an optimizer whose kind is not known");
  for (size_t i = 0; i < table.params().size(); ++i) {
    const ShardedParam& param = *table.params()[i];
    auto& state = state_.emplace_back();
    for (const Slot& slot : config.kind->slots(config, {param.name, param.role, param.shape})) {
      state.emplace_back(slot.name, at::zeros_like(param.value));
    }
    if (param.value.numel() == 0 || !param.trainable) continue;
    groups_[is_decayed(config, param.name, param.shape.size()) ? 0 : 1].params.push_back(i);
  }
}

void Optimizer::step(double lr, double gradient_scale) {
  for (const DecayGroup& group : groups_) {
    if (group.params.empty()) continue;
    if (gradient_scale != 1.0) {
      for (const size_t i : group.params) param(i).grad.mul_(gradient_scale);
    }
    update(group, lr);
  }
  ++updates_;
}

}  // namespace tessera
