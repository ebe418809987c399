#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// A micro-batch as one rank sees it. Shapes: T tokens, S of them in the residual stream's slice.
struct LocalSizes {
  LocalSizes(const Config& config, const ParallelDims& dims, const BatchPlan& batch, int64_t rank);

  int64_t rows = 1;     // samples
  int64_t tokens = 0;   // T
  int64_t slice = 0;    // S
  int64_t element = 4;  // bytes in the compute dtype
  int64_t wide = 4;     // bytes in the dtype of sums
  int64_t heads = 0;    // of this rank
  int64_t kv_heads = 0;
  bool packed = false;  // several documents in a sample
  double pairs = 0.0;   // query-key pairs of the rank, of samples that are one document

  /// The same where a token sees `window` tokens at most; 0: all before it.
  double pairs_under(int64_t window) const;

 private:
  double length_ = 0.0;  // tokens of a sample
};

}  // namespace tessera
