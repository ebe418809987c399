#include "tessera/planner/context_plan.h"

#include <algorithm>
#include <numeric>

#include "tessera/layout/context_grid.h"
#include "tessera/layout/training_data.h"

namespace tessera {

double ContextPlan::most_over_mean() const {
  const double sum = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  return *std::max_element(pairs.begin(), pairs.end()) * static_cast<double>(pairs.size()) / sum;
}

std::vector<double> attention_pairs(const Config& config, std::span<const int64_t> document_ends) {
  const ContextGrid grid = context_grid(config.parallelism);
  std::vector<double> pairs;
  for (const Pieces& of_group :
       split_row(document_ends.back(), document_ends, grid.outer, token_balance(config))) {
    const auto work = static_cast<double>(attention_work(of_group, document_ends));
    pairs.insert(pairs.end(), static_cast<size_t>(grid.inner),
                 work / static_cast<double>(grid.inner));
  }
  return pairs;
}

std::optional<ContextPlan> plan_context(const Config& config, const ParallelDims& dims) {
  if (dims.cp == 1) return std::nullopt;
  ContextPlan plan;
  const int64_t length = config.model.seq_length;
  plan.by_documents = packs_documents(config.train_dataset.dataloader.config);
  switch (token_balance(config)) {
    case TokenBalance::kContiguous: plan.balance = "contiguous"; break;
    case TokenBalance::kHeadTail: plan.balance = "head_tail"; break;
    case TokenBalance::kByWork: plan.balance = "by_work"; break;
  }
  plan.pairs = attention_pairs(config, std::vector<int64_t>{length});
  return plan;
}

}  // namespace tessera
