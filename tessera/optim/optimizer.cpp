#include "tessera/optim/optimizer.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/comm/stage_group.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/weight_decay.h"

namespace tessera {
namespace {

ProcessGroup stage_for(const OptimizerConfig& optimizer, const DeviceMesh& mesh) {
  TESSERA_CHECK(optimizer.kind != nullptr, "an optimizer whose kind is not known");
  const bool talks = optimizer.kind->needs_whole_matrices || optimizer.moment_dtype == "int8";
  return talks ? stage_group(mesh) : ProcessGroup();
}

}  // namespace

Optimizer::Optimizer(const Config& config, ParamTable& table, const DeviceMesh& mesh)
    : config_(config.optimizer),
      table_(table),
      stage_(stage_for(config_, mesh)),
      moments_(config, table, mesh, stage_) {
  for (const std::vector<size_t>& batch : moments_.batches()) {
    std::vector<DecayGroup>& groups = groups_.emplace_back();
    groups = {{config_.weight_decay, {}}, {0.0, {}}};
    for (const size_t i : batch) {
      const ShardedParam& row = *table.params()[i];
      if (row.value.numel() == 0 || !row.trainable) continue;
      groups[is_decayed(config_, row.name, row.shape.size()) ? 0 : 1].params.push_back(i);
    }
  }
}

int64_t Optimizer::state_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < table_.params().size(); ++i) {
    for (const StateTensor& kept : state(i)) {
      bytes += static_cast<int64_t>(kept.value.nbytes());
      if (kept.scales.defined()) bytes += static_cast<int64_t>(kept.scales.nbytes());
    }
  }
  return bytes;
}

void Optimizer::step(double lr, double gradient_scale) {
  const double scale = config_.maximize ? -gradient_scale : gradient_scale;
  for (size_t batch = 0; batch < groups_.size(); ++batch) {
    moments_.open(batch);
    for (const DecayGroup& group : groups_[batch]) {
      if (group.params.empty()) continue;
      if (scale != 1.0) {
        for (const size_t i : group.params) param(i).grad.mul_(scale);
      }
      update(group, lr);
    }
    moments_.close(batch, updates() + 1);
  }
  finish_update(lr);
  ++updates_;
}

}  // namespace tessera
