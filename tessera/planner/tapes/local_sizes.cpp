#include "tessera/planner/tapes/local_sizes.h"

#include <algorithm>

#include "tessera/base/box.h"
#include "tessera/layout/training_data.h"

namespace tessera {

LocalSizes::LocalSizes(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                       int64_t rank)
    : rows(batch.local_batch),
      tokens(batch.local_batch * config.model.seq_length / dims.cp),
      slice(part_of(tokens, dims.tp, dims.index_on(Axis::kTp, rank)).size()),
      element(size_of(config.model.compute_dtype)),
      wide(config.model.compute_dtype == DType::kFloat64 ? 8 : 4),
      heads(config.model.num_attention_heads / dims.tp),
      kv_heads(std::max<int64_t>(1, config.model.core_kv_heads() / dims.tp)),
      packed(packs_documents(config.train_dataset.dataloader.config)) {}

}  // namespace tessera
