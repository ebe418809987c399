#include "tessera/layout/training_data.h"

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

}  // namespace tessera
