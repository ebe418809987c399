#include "tessera/layout/loader_options.h"

#include "tessera/layout/context_grid.h"
#include "tessera/layout/training_data.h"

namespace tessera {

LoaderOptions loader_options(const Config& config, const ParallelDims& dims, const BatchPlan& plan,
                             int64_t rank) {
  const DataloaderConfig& loader = config.train_dataset.dataloader;
  LoaderOptions options;
  options.batch_rank = dims.index_on(Axis::kBatch, rank);
  options.batch_degree = dims.batch();
  options.local_batch_size = plan.local_batch;
  options.micro_batches = plan.micro_batches;
  options.batch = plan.effective_batch;
  options.balance_units = config.train_dataset.balance_enabled;
  options.cp_rank = dims.index_on(Axis::kCp, rank);
  options.cp_degree = dims.cp;
  options.cp_inner = context_grid(config.parallelism).inner;
  options.drop_remainder = config.train_dataset.drop_remainder;
  options.shuffle = loader.shuffle;
  options.seed = loader.config.seed;
  options.next_tokens = config.model.num_nextn_predict_layers > 0;
  options.columns.eod = loader.config.eod;
  options.columns.pad = loader.config.pad;
  options.columns.ignored = config.model.ignore_token_id;
  options.columns.reset_position_ids = loader.config.reset_position_ids;
  options.columns.packed = packs_documents(loader.config);
  options.columns.eod_mask_loss = loader.config.eod_mask_loss;
  options.columns.add_extra_token = loader.config.add_extra_token_to_sequence;
  options.balance = token_balance(config);
  return options;
}

}  // namespace tessera
