#include "tessera/train/parity/recorder.h"

#include <ATen/ATen.h>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

at::Tensor box_view(at::Tensor whole, const Box& box) {
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    whole = whole.narrow(static_cast<int64_t>(d), box.offsets[d], box.sizes[d]);
  }
  return whole;
}

}  // namespace

void RunRecord::assemble_experts(const ShardedParam& param, bool gradients_of) {
  const size_t place = param.name.find("{e}");
  const std::vector<int64_t> shape(param.shape.begin() + 1, param.shape.end());
  const Box inner{{param.box.offsets.begin() + 1, param.box.offsets.end()},
                  {param.box.sizes.begin() + 1, param.box.sizes.end()}};
  for (int64_t e = 0; e < param.shape[0]; ++e) {
    std::string name = param.name;
    name.replace(place, 3, std::to_string(e));
    const auto [found, added] = (gradients_of ? gradients : values).try_emplace(name);
    if (added) found->second = at::zeros(shape, param.value.options());
    if (gradients_of && added) {
      names.push_back(name);
      ShardedParam cut = param;
      cut.value.reset();
      cut.grad.reset();
      cuts.emplace(name, std::move(cut));
    }
    const int64_t here = e - param.box.offsets[0];
    if (!param.primary || here < 0 || here >= param.box.sizes[0]) continue;
    box_view(found->second, inner).copy_((gradients_of ? param.grad : param.value).select(0, here));
  }
}

void RunRecord::assemble(const ParamTable& table, bool gradients_of) {
  const std::lock_guard lock(mutex_);
  for (const auto& param : table.params()) {
    if (gradients_of && !param->trainable) continue;
    if (param->name.find("{e}") != std::string::npos) {
      assemble_experts(*param, gradients_of);
      continue;
    }
    std::map<std::string, at::Tensor>& whole = gradients_of ? gradients : values;
    const auto [found, added] = whole.try_emplace(param->name);
    if (added) {
      found->second = at::zeros(param->shape, param->value.options());
      if (gradients_of) {
        names.push_back(param->name);
        ShardedParam cut = *param;
        cut.value.reset();
        cut.grad.reset();
        cuts.emplace(param->name, std::move(cut));
      }
    }
    if (!param->primary || param->value.numel() == 0) continue;
    box_view(found->second, param->box).copy_(gradients_of ? param->grad : param->value);
  }
}

void RunRecord::record_gradients(const ParamTable& table, const DeviceMesh& mesh) {
  std::vector<ReplicaDifference> differences = check_replicas(table, mesh, /*gradients=*/true);
  assemble(table, true);
  const std::lock_guard lock(mutex_);
  if (mesh.rank() == 0) replica_gradients = std::move(differences);
}

void RunRecord::record_values(const ParamTable& table, const DeviceMesh& mesh) {
  std::vector<ReplicaDifference> differences = check_replicas(table, mesh, /*gradients=*/false);
  assemble(table, false);
  const std::lock_guard lock(mutex_);
  if (mesh.rank() == 0) replica_values = std::move(differences);
}

void RunRecord::record_step(const StepMetrics& metrics, const DeviceMesh& mesh) {
  const std::lock_guard lock(mutex_);
  if (mesh.rank() == 0) steps.push_back(metrics);
}

void RunRecord::follow(TrainerOptions& options, int64_t steps) {
  options.on_gradients = [this](int64_t step, const ParamTable& table, const DeviceMesh& mesh) {
    if (step == 1) record_gradients(table, mesh);
  };
  options.on_step = [this, steps](const StepMetrics& metrics, const ParamTable& table,
                                  const DeviceMesh& mesh) {
    record_step(metrics, mesh);
    if (metrics.step == steps) record_values(table, mesh);
  };
}

std::unique_ptr<RunRecord> record_run(const Config& config, int64_t ranks, int64_t steps,
                                      const std::shared_ptr<const SampleSource>& source,
                                      const Faults& faults, const OptimizerMakers& optimizers) {
  auto record = std::make_unique<RunRecord>();
  Config alone = config;  // a recorded run starts at step 0 and leaves nothing on disk
  alone.checkpoint.enable_save = false;
  alone.checkpoint.no_load_optim = true;
  TrainerOptions options;
  options.source = source;
  options.stop_after = steps;
  options.faults = faults;
  options.optimizers = optimizers;
  options.on_model = [&](ParallelModel& model, const DeviceMesh& mesh) {
    record->stream.watch(model, mesh);
  };
  record->follow(options, steps);
  run_ranks(static_cast<int>(ranks),
            [&](const ProcessGroup& world) { Trainer(alone, world, options).run(); });
  return record;
}

}  // namespace tessera
