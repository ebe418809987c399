#include "tessera/train/dataset.h"

#include "tessera/base/error.h"
#include "tessera/parallel/context_parallel.h"
#include "tessera/planner/context_plan.h"
#include "tessera/planner/data_plan.h"

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

LoaderOptions loader_options(const Config& config, const ParallelDims& dims, const BatchPlan& plan,
                             int64_t rank) {
  const DataloaderConfig& loader = config.train_dataset.dataloader;
  LoaderOptions options;
  options.batch_rank = dims.index_on(Axis::kBatch, rank);
  options.batch_degree = dims.batch();
  options.local_batch_size = plan.local_batch;
  options.micro_batches = plan.micro_batches;
  options.cp_rank = dims.index_on(Axis::kCp, rank);
  options.cp_degree = dims.cp;
  options.cp_inner = inner_degree(config.parallelism);
  options.drop_remainder = config.train_dataset.drop_remainder;
  options.shuffle = loader.shuffle;
  options.seed = loader.config.seed;
  options.next_tokens = config.model.num_nextn_predict_layers > 0;
  options.columns.eod = loader.config.eod;
  options.columns.pad = loader.config.pad;
  options.columns.reset_position_ids = loader.config.reset_position_ids;
  options.columns.reset_attention_mask = loader.config.reset_attention_mask;
  options.columns.create_compressed_eod_mask = loader.config.create_compressed_eod_mask;
  options.columns.eod_mask_loss = loader.config.eod_mask_loss;
  options.columns.add_extra_token = loader.config.add_extra_token_to_sequence;
  options.balance = token_balance(config, dims.cp);
  return options;
}

}  // namespace tessera
