#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/data/token_split.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// Attention's work on the ranks of the cp axis.
struct ContextPlan {
  std::string balance;        // contiguous, head_tail or by_work
  bool by_documents = false;  // packed data: what follows is of a sample that is one document
  std::vector<double> pairs;  // [cp] see attention_pairs

  double most_over_mean() const;
};

/// The training data pack several documents into a sample, which do not see each other.
bool is_packed(const Config& config);

/// How the rows of the context-parallel grid share a sample: equal work where there is something to
/// balance. Neighbours that trade heads have equal work however the sample is cut.
TokenBalance token_balance(const Config& config, int64_t cp);

/// Query-key pairs that the mask leaves to each rank of the cp axis, of one sample whose documents
/// end at `document_ends` (the last at its length); of ranks that trade heads their share.
std::vector<double> attention_pairs(const Config& config, int64_t cp,
                                    std::span<const int64_t> document_ends);

/// None without context parallelism.
std::optional<ContextPlan> plan_context(const Config& config, const ParallelDims& dims);

}  // namespace tessera
