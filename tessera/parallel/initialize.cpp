#include "tessera/parallel/initialize.h"

#include "tessera/nn/init.h"

namespace tessera {

void initialize(ParallelModel& model, const Config& config) {
  const auto seed = static_cast<uint64_t>(config.training.seed);
  for (const auto& unit : model.units) {
    unit->for_each_part([&](const ParameterPart& part, ShardedParam& param) {
      fill(param.value, part, seed, param.box);
    });
  }
}

}  // namespace tessera
