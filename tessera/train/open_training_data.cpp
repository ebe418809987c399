#include "tessera/train/open_training_data.h"

#include "tessera/base/error.h"
#include "tessera/layout/training_data.h"

namespace tessera {

std::shared_ptr<const SampleSource> open_training_data(const Config& config) {
  const std::optional<DatasetOptions> options = training_data(config);
  if (!options) {
    throw ConfigError(
        "train_dataset.dataloader.config.data_path is not given: there is nothing to "
        "train on");
  }
  return open_dataset(*options);
}

}  // namespace tessera
