#pragma once

#include <optional>

#include "tessera/config/config.h"
#include "tessera/data/sample_source.h"

namespace tessera {

/// Whether a sample holds several documents that do not see each other. The two switches mean the
/// same here: no dense mask is ever made.
bool packs_documents(const DatasetConfig& data);

/// The training data that the file describes, as open_dataset takes it. None when it names none.
/// Throws ConfigError for a path list that is no mixture.
std::optional<DatasetOptions> training_data(const Config& config);

}  // namespace tessera
