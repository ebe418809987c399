#include "tessera/optim/optimizers.h"

#include "tessera/base/error.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/muon.h"
#include "tessera/optim/sgd.h"

namespace tessera {
namespace {

template <typename Kind>
std::unique_ptr<Optimizer> make(const Config& config, ParamTable& table, const DeviceMesh& mesh) {
  return std::make_unique<Kind>(config, table, mesh);
}

}  // namespace

const OptimizerMakers& builtin_optimizer_makers() {
  static const OptimizerMakers makers = {
      {"AdamW", make<AdamW>},
      {"Muon", make<Muon>},
      {"SGD", make<Sgd>},
  };
  return makers;
}

std::unique_ptr<Optimizer> make_optimizer(const Config& config, ParamTable& table,
                                          const DeviceMesh& mesh, const OptimizerMakers& makers) {
  for (const OptimizerMaker& maker : makers) {
    if (maker.name == config.optimizer.type) return maker.make(config, table, mesh);
  }
  throw ConfigError("optimizer.type = " + config.optimizer.type +
                    ": the engine has no such optimizer");
}

}  // namespace tessera
