#include "tessera/train/load_weights.h"

#include <ATen/ATen.h>

#include <filesystem>

#include "tessera/checkpoint/agree.h"
#include "tessera/checkpoint/hf_load.h"
#include "tessera/checkpoint/load.h"
#include "tessera/comm/gather_text.h"
#include "tessera/parallel/initialize.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/fingerprint.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

namespace {

void load_from_checkpoint(ParallelModel& model, const Config& config, LoadOptions options,
                          const DeviceMesh& mesh) {
  const OptimizerState none = {[](size_t) { return std::vector<StateTensor>{}; }};
  load_checkpoint(options, model_spec(config.model), model.table, none, mesh);
}

}  // namespace

void load_hf_weights(ParallelModel& model, const Config& config, const std::string& folder,
                     WeightRows rows) {
  const HfWeights weights(folder, select_rows(model_spec(config.model), rows));
  const auto is_there = [rows](ParamRole role) {
    return rows == WeightRows::kAll || is_adapter(role) == (rows == WeightRows::kAdapters);
  };
  for (const auto& unit : model.units) {
    unit->for_each_part([&](const ParameterPart& part, ShardedParam& param) {
      if (param.value.numel() == 0 || !is_there(part.role)) return;
      param.value.copy_(weights.read_box(param.name, param.box, part.storage));
    });
  }
  for (const auto& param : model.table.params()) {
    if (param->role == ParamRole::kRouterBias && is_there(param->role)) {
      param->value.copy_(weights.read_box(param->name, param->box, param->value.scalar_type()));
    }
  }
}

void load_base(ParallelModel& model, const Config& config, const std::string& path,
               const DeviceMesh& mesh) {
  if (holds_published_weights(path)) {
    return load_hf_weights(model, config, path, WeightRows::kBase);
  }
  LoadOptions options;
  options.path = path;
  options.rows = WeightRows::kBase;
  load_from_checkpoint(model, config, std::move(options), mesh);
}

void load_weights(ParallelModel& model, const Config& config, const DeviceMesh& mesh) {
  const std::string& path = config.checkpoint.load_path;
  const std::string& base = config.checkpoint.base_load_path;
  const bool has_base = config.model.lora.is_given() && !base.empty();
  if (has_base) load_base(model, config, base, mesh);
  if (path.empty()) return initialize_adapters(model, config);
  if (holds_adapters(path)) return load_hf_weights(model, config, path, WeightRows::kAdapters);
  if (holds_published_weights(path)) {
    if (config.model.lora.is_given()) initialize_adapters(model, config);
    return load_hf_weights(model, config, path, WeightRows::kBase);
  }
  LoadOptions options;
  options.path = path;
  options.base = base_fingerprint(config, mesh);
  load_from_checkpoint(model, config, std::move(options), mesh);
}

std::string base_fingerprint(const Config& config, const DeviceMesh& mesh) {
  const std::string& path = config.checkpoint.base_load_path;
  if (path.empty() || !config.model.lora.is_given()) return "";
  std::string fingerprint;
  agree(mesh[Axis::kWorld], [&] {
    if (mesh.rank() != 0) return;
    fingerprint =
        weights_fingerprint(holds_published_weights(path) ? std::filesystem::path(path)
                                                          : checkpoints_at(path).folders.front());
  });
  return broadcast_text(0, mesh[Axis::kWorld], fingerprint);
}

}  // namespace tessera
