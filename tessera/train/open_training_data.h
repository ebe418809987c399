#pragma once

#include <memory>

#include "tessera/config/config.h"
#include "tessera/data/sample_source.h"

namespace tessera {

/// The order of training samples that the file describes. Throws ConfigError.
std::shared_ptr<const SampleSource> open_training_data(const Config& config);

}  // namespace tessera
