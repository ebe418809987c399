#include "tessera/planner/tapes/local_sizes.h"

#include <algorithm>

#include "tessera/base/box.h"
#include "tessera/layout/training_data.h"
#include "tessera/planner/context_plan.h"

namespace tessera {
namespace {

// Of one sample on the rank of the cp axis.
double causal_pairs(const Config& config, const ParallelDims& dims, int64_t rank) {
  const auto length = static_cast<double>(config.model.seq_length);
  if (dims.cp == 1) return length * (length + 1) / 2;
  return attention_pairs(config, std::vector<int64_t>{config.model.seq_length})
      .at(static_cast<size_t>(dims.index_on(Axis::kCp, rank)));
}

}  // namespace

LocalSizes::LocalSizes(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                       int64_t rank)
    : rows(batch.local_batch),
      tokens(batch.local_batch * config.model.seq_length / dims.cp),
      slice(part_of(tokens, dims.tp, dims.index_on(Axis::kTp, rank)).size()),
      element(size_of(config.model.compute_dtype)),
      wide(config.model.compute_dtype == DType::kFloat64 ? 8 : 4),
      heads(config.model.num_attention_heads / dims.tp),
      kv_heads(std::max<int64_t>(1, config.model.core_kv_heads() / dims.tp)),
      packed(packs_documents(config.train_dataset.dataloader.config)),
      pairs(static_cast<double>(rows) * causal_pairs(config, dims, rank)),
      length_(static_cast<double>(config.model.seq_length)) {}

double LocalSizes::pairs_under(int64_t window) const {
  const auto w = static_cast<double>(window);
  if (window == 0 || w >= length_) return pairs;
  const double seen = length_ * w - w * (w - 1) / 2;
  return pairs * seen / (length_ * (length_ + 1) / 2);
}

}  // namespace tessera
