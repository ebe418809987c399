#include "tessera/planner/data_plan.h"

#include "tessera/base/error.h"
#include "tessera/data/loader.h"
#include "tessera/layout/training_data.h"

namespace tessera {

DataPlan plan_data(const Config& config, const BatchPlan& batch) {
  DataPlan plan;
  try {
    const std::optional<DatasetOptions> options = training_data(config);
    if (!options) {
      plan.problem = "the file names no training data";
      return plan;
    }
    plan.samples = count_samples(*options);
    const DataSupply supply =
        data_supply(plan.samples, batch_growth(config.training, batch), config.training.steps,
                    config.train_dataset.drop_remainder);
    plan.steps_in_data = supply.steps_available;
    plan.passes = supply.passes;
    plan.warning = supply.warning();
  } catch (const ConfigError& error) {
    plan.problem = error.what();
  }
  return plan;
}

}  // namespace tessera
