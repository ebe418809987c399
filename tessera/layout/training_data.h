#pragma once

#include <optional>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"
#include "tessera/data/sample_source.h"

namespace tessera {

/// Whether a sample holds several documents that do not see each other. The two switches mean the
/// same here: no dense mask is ever made.
bool packs_documents(const DatasetConfig& data);

/// The training data that the file describes, as open_dataset takes it. None when it names none.
/// Throws ConfigError for a path list that is no mixture.
std::optional<DatasetOptions> training_data(const Config& config);

/// The configuration as if a set of eval_dataset were what is trained on, read once in its order;
/// its valid_data_path is then a train_data_path, and a data_path without a split whole.
Config evaluated_as_training(const Config& config, const EvalDatasetConfig& set);

/// How messages name set `item`: "eval_dataset" of a single one, "eval_dataset[1]" of a list.
std::string eval_path(const std::vector<EvalDatasetConfig>& sets, size_t item,
                      const Provenance& provenance);

/// The data of a set: its valid_data_path, else its data_path (of a split the second part), one
/// epoch or dataloader.sizes[1] samples. None when it names none. Throws ConfigError.
std::optional<DatasetOptions> evaluation_data(const Config& config, const EvalDatasetConfig& set);

}  // namespace tessera
