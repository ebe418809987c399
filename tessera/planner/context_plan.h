#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// Attention's work on the ranks of the cp axis.
struct ContextPlan {
  std::string balance;        // contiguous, head_tail or by_work
  bool by_documents = false;  // packed data: what follows is of a sample that is one document
  std::vector<double> pairs;  // [cp] see attention_pairs

  double most_over_mean() const;
};

/// Query-key pairs that the mask leaves to each rank of the cp axis, of one sample whose documents
/// end at `document_ends` (the last at its length); of ranks that trade heads their share.
std::vector<double> attention_pairs(const Config& config, std::span<const int64_t> document_ends);

/// None without context parallelism.
std::optional<ContextPlan> plan_context(const Config& config, const ParallelDims& dims);

}  // namespace tessera
