#include "tessera/planner/context_plan.h"

#include <algorithm>
#include <numeric>

#include "tessera/planner/context_grid.h"

namespace tessera {

double ContextPlan::most_over_mean() const {
  const double sum = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  return *std::max_element(pairs.begin(), pairs.end()) * static_cast<double>(pairs.size()) / sum;
}

bool is_packed(const Config& config) {
  const DatasetConfig& data = config.train_dataset.dataloader.config;
  return data.reset_attention_mask || data.create_compressed_eod_mask;
}

TokenBalance token_balance(const Config& config, int64_t cp) {
  const ParallelismConfig& parallelism = config.parallelism;
  const std::string& asked = parallelism.context_parallel_balance;
  const int64_t rows = context_grid(parallelism, cp).outer;
  if (rows == 1 || asked == "contiguous") return TokenBalance::kContiguous;
  if (is_packed(config) && asked == "auto") return TokenBalance::kByWork;
  const int64_t length = config.train_dataset.dataloader.config.seq_length;
  return length % (2 * rows) == 0 ? TokenBalance::kHeadTail : TokenBalance::kContiguous;
}

std::vector<double> attention_pairs(const Config& config, int64_t cp,
                                    std::span<const int64_t> document_ends) {
  const ContextGrid grid = context_grid(config.parallelism, cp);
  std::vector<double> pairs;
  for (const Pieces& of_row :
       split_row(document_ends.back(), document_ends, grid.outer, token_balance(config, cp))) {
    const auto work = static_cast<double>(attention_work(of_row, document_ends));
    pairs.insert(pairs.end(), static_cast<size_t>(grid.inner),
                 work / static_cast<double>(grid.inner));
  }
  return pairs;
}

std::optional<ContextPlan> plan_context(const Config& config, const ParallelDims& dims) {
  if (dims.cp == 1) return std::nullopt;
  ContextPlan plan;
  const int64_t length = config.model.seq_length;
  plan.by_documents = is_packed(config);
  switch (token_balance(config, dims.cp)) {
    case TokenBalance::kContiguous: plan.balance = "contiguous"; break;
    case TokenBalance::kHeadTail: plan.balance = "head_tail"; break;
    case TokenBalance::kByWork: plan.balance = "by_work"; break;
  }
  plan.pairs = attention_pairs(config, dims.cp, std::vector<int64_t>{length});
  return plan;
}

}  // namespace tessera
