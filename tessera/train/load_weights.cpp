#include "tessera/train/load_weights.h"

#include <ATen/ATen.h>

#include "tessera/checkpoint/hf_load.h"
#include "tessera/checkpoint/load.h"
#include "tessera/layout/model_spec.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

void load_hf_weights(ParallelModel& model, const Config& config, const std::string& folder) {
  const HfWeights weights(folder, model_spec(config.model));
  for (const auto& unit : model.units) {
    unit->for_each_part([&](const ParameterPart& part, ShardedParam& param) {
      if (param.value.numel() == 0) return;
      param.value.copy_(weights.read_box(param.name, param.box, part.storage));
    });
  }
  for (const auto& param : model.table.params()) {
    if (!param->trainable) {
      param->value.copy_(weights.read_box(param->name, param->box, param->value.scalar_type()));
    }
  }
}

void load_weights(ParallelModel& model, const Config& config, const std::string& path,
                  const DeviceMesh& mesh) {
  if (holds_published_weights(path)) return load_hf_weights(model, config, path);
  LoadOptions options;
  options.path = path;
  const OptimizerState none = {[](size_t) { return std::vector<StateTensor>{}; }};
  load_checkpoint(options, model_spec(config.model), model.table, none, mesh);
}

}  // namespace tessera
