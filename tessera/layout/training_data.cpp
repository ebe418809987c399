#include "tessera/layout/training_data.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/config/blend.h"
#include "tessera/data/records/make_rows.h"

namespace tessera {

bool packs_documents(const DatasetConfig& data) {
  return data.reset_attention_mask || data.create_compressed_eod_mask;
}

namespace {

// The token file that is made of an HFDataLoader's records, now if it is not there yet.
std::string rows_of(const Config& config) {
  const DataloaderConfig& loader = config.train_dataset.dataloader;
  RowsOptions options;
  options.kind = loader.path.value_or("");
  options.files = loader.data_files.value_or(std::vector<std::string>{});
  for (const DataHandler& handler : loader.handler) {
    options.handlers.push_back({handler.type, handler.args});
    const auto own = handler.args.find("tokenizer");
    if (own != handler.args.end() && !own->second.empty()) options.tokenizer = own->second[0];
  }
  if (loader.tokenizer) options.tokenizer = *loader.tokenizer;
  options.chat_template = loader.chat_template.value_or("");
  options.packing = !loader.packing.empty();
  options.drop_too_long = loader.too_long == "drop";
  options.seq_length = loader.config.seq_length;
  options.size = loader.size;
  options.vocab_size = config.model.vocab_size;
  options.cache_dir = loader.config.path_to_cache.value_or("");
  return make_rows(options);
}

}  // namespace

Config evaluated_as_training(const Config& config, const EvalDatasetConfig& set) {
  Config result = config;
  result.train_dataset.drop_remainder = false;
  result.train_dataset.balance_enabled = false;
  DataloaderConfig& loader = result.train_dataset.dataloader;
  loader = set.dataloader;
  loader.shuffle = false;
  // One epoch, or the second of the sizes.
  loader.sizes =
      loader.sizes.size() > 1 ? std::vector<int64_t>{loader.sizes[1]} : std::vector<int64_t>{};
  DatasetConfig& data = loader.config;
  if (data.valid_data_path) {
    data.train_data_path = data.valid_data_path;
    data.valid_data_path.reset();
  }
  data.test_data_path.reset();
  // Without a split of its own a file is read whole.
  if (data.data_path && !data.split) std::swap(data.data_path, data.train_data_path);
  return result;
}

std::string eval_path(const std::vector<EvalDatasetConfig>& sets, size_t item,
                      const Provenance& provenance) {
  const auto is_of_list = [](const auto& place) {
    return place.first.starts_with("eval_dataset[");
  };
  const bool list = sets.size() > 1 || std::ranges::any_of(provenance, is_of_list);
  return list ? "eval_dataset[" + std::to_string(item) + "]" : "eval_dataset";
}

std::optional<DatasetOptions> training_data(const Config& config) {
  const DataloaderConfig& loader = config.train_dataset.dataloader;
  const DatasetConfig& data = loader.config;
  if (loader.type == "HFDataLoader") {
    DatasetOptions options;
    options.prefixes = {rows_of(config)};
    options.kind = SampleKind::kRowsInOrder;
    options.seq_length = data.seq_length;
    options.seed = data.seed;
    options.vocab_size = config.model.vocab_size;
    return options;
  }
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
  if (loader.datasets_type == "SFTDataset") options.kind = SampleKind::kRows;
  options.seq_length = data.seq_length;
  options.seed = data.seed;
  options.add_extra_token = data.add_extra_token_to_sequence;
  options.vocab_size = config.model.vocab_size;
  options.cache_dir = data.path_to_cache;
  options.threads = data.num_dataset_builder_threads;
  return options;
}

std::optional<DatasetOptions> evaluation_data(const Config& config, const EvalDatasetConfig& set) {
  std::optional<DatasetOptions> options = training_data(evaluated_as_training(config, set));
  if (!options || set.dataloader.type == "HFDataLoader") return options;
  options->phase = DatasetPhase::kValid;
  options->drop_last_partial = set.dataloader.config.drop_last_partial_validation_sequence;
  return options;
}

}  // namespace tessera
