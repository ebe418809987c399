#include "tessera/parallel/initialize.h"

#include "tessera/nn/init.h"

namespace tessera {
namespace {

void fill_units(ParallelModel& model, const Config& config, bool frozen_too) {
  const auto seed = static_cast<uint64_t>(config.training.seed);
  for (const auto& unit : model.units) {
    if (unit->is_frozen() && !frozen_too) continue;
    unit->for_each_part([&](const ParameterPart& part, ShardedParam& param) {
      fill(param.value, part, seed, param.box);
    });
  }
}

}  // namespace

void initialize(ParallelModel& model, const Config& config) { fill_units(model, config, true); }

void initialize_adapters(ParallelModel& model, const Config& config) {
  fill_units(model, config, false);
}

}  // namespace tessera
