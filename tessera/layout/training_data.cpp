#include "tessera/layout/training_data.h"

#include "tessera/base/error.h"
#include "tessera/config/blend.h"

namespace tessera {

bool packs_documents(const DatasetConfig& data) {
  return data.reset_attention_mask || data.create_compressed_eod_mask;
}

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

}  // namespace tessera
