#include "tessera/optim/optimizers.h"

#include "tessera/base/error.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/sgd.h"

namespace tessera {

const OptimizerMakers& builtin_optimizer_makers() {
  static const OptimizerMakers makers = {
      {"AdamW", [](const OptimizerConfig& config, ParamTable& table,
                   const DeviceMesh&) { return std::make_unique<AdamW>(config, table); }},
      {"SGD", [](const OptimizerConfig& config, ParamTable& table,
                 const DeviceMesh&) { return std::make_unique<Sgd>(config, table); }},
  };
  return makers;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, ParamTable& table,
                                          const DeviceMesh& mesh, const OptimizerMakers& makers) {
  for (const OptimizerMaker& maker : makers) {
    if (maker.name == config.type) return maker.make(config, table, mesh);
  }
  throw ConfigError("optimizer.type = " + config.type + ": the engine has no such optimizer");
}

}  // namespace tessera
