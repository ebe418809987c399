#pragma once

// The engine's side of the table of optimizers (config/optimizer_kind.h): what makes one run.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/optim/optimizer.h"

namespace tessera {

struct OptimizerMaker {
  std::string name;  // of its OptimizerKind
  std::function<std::unique_ptr<Optimizer>(const Config&, ParamTable&, const DeviceMesh&)> make;
};
using OptimizerMakers = std::vector<OptimizerMaker>;

/// One for each row of builtin_optimizers().
const OptimizerMakers& builtin_optimizer_makers();

/// The optimizer of config.optimizer.type, over this rank's part of the model; collective over
/// `mesh`. `table` and `mesh` must outlive it. Throws ConfigError when `makers` has none of that
/// name.
std::unique_ptr<Optimizer> make_optimizer(
    const Config& config, ParamTable& table, const DeviceMesh& mesh,
    const OptimizerMakers& makers = builtin_optimizer_makers());

}  // namespace tessera
