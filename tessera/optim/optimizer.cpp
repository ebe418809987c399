#include "tessera/optim/optimizer.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/weight_decay.h"

namespace tessera {

Optimizer::Optimizer(const Config& config, ParamTable& table, const DeviceMesh& mesh)
    : config_(config.optimizer),
      table_(table),
      mesh_(mesh),
      groups_{{config_.weight_decay, {}}, {0.0, {}}} {
  TESSERA_CHECK(config_.kind != nullptr, "an optimizer whose kind is not known");
  for (size_t i = 0; i < table.params().size(); ++i) {
    const ShardedParam& param = *table.params()[i];
    auto& state = state_.emplace_back();
    for (const Slot& slot : config_.kind->slots(config_, {param.name, param.role, param.shape})) {
      state.emplace_back(slot.name, at::zeros_like(param.value));
    }
    if (param.value.numel() == 0 || !param.trainable) continue;
    groups_[is_decayed(config_, param.name, param.shape.size()) ? 0 : 1].params.push_back(i);
  }
}

void Optimizer::step(double lr, double gradient_scale) {
  const double scale = config_.maximize ? -gradient_scale : gradient_scale;
  for (const DecayGroup& group : groups_) {
    if (group.params.empty()) continue;
    if (scale != 1.0) {
      for (const size_t i : group.params) param(i).grad.mul_(scale);
    }
    update(group, lr);
  }
  finish_update(lr);
  ++updates_;
}

}  // namespace tessera
