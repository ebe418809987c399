#include "tessera/planner/data_plan.h"

#include "tessera/base/error.h"
#include "tessera/config/blend.h"
#include "tessera/data/loader.h"

namespace tessera {

std::optional<DatasetOptions> training_data(const Config& config) {
  const DataloaderConfig& loader = config.train_dataset.dataloader;
  const DatasetConfig& data = loader.config;
  const auto& paths = data.data_path ? data.data_path : data.train_data_path;
  if (!paths) return std::nullopt;
  DatasetOptions options;
  std::string problem;
  Blend blend = parse_blend(*paths, problem);
  if (data.data_path && data.split) options.split = parse_split(*data.split, problem);
  if (!problem.empty()) throw ConfigError("the training data " + problem);
  options.prefixes = std::move(blend.prefixes);
  options.weights = std::move(blend.weights);
  if (!loader.sizes.empty() && loader.sizes[0] > 0) options.samples = loader.sizes[0];
  options.seq_length = data.seq_length;
  options.seed = data.seed;
  options.add_extra_token = data.add_extra_token_to_sequence;
  options.vocab_size = config.model.vocab_size;
  options.cache_dir = data.path_to_cache;
  options.threads = data.num_dataset_builder_threads;
  return options;
}

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
        data_supply(plan.samples, batch.effective_batch, config.training.steps,
                    config.train_dataset.drop_remainder);
    plan.steps_in_data = supply.steps_available();
    plan.passes = supply.passes;
    plan.warning = supply.warning();
  } catch (const ConfigError& error) {
    plan.problem = error.what();
  }
  return plan;
}

}  // namespace tessera
