#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/layout/size_choices.h"

namespace tessera {

/// The cp ranks as `outer` rows of `inner` neighbours: heads are traded inside a row, keys and
/// values travel between rows.
struct ContextGrid {
  int64_t inner = 1;
  int64_t outer = 1;
};

inline ContextGrid context_grid(const ParallelismConfig& parallelism, int64_t cp) {
  if (parallelism.context_parallel_method == "ulysses") return {cp, 1};
  if (parallelism.context_parallel_method != "hybrid") return {1, cp};
  const int64_t inner = parallelism.ulysses_degree_in_cp.value_or(1);
  return {inner, cp / inner};
}

/// Whether keys and values, `key_bytes` each on a rank, travel in turn: as asked, else beyond the
/// size up to which they are gathered.
inline bool in_a_ring(const ParallelismConfig& parallelism, const ContextGrid& grid,
                      int64_t key_bytes) {
  const std::string& asked = parallelism.context_parallel_exchange;
  if (asked != "auto") return asked == "ring";
  return 2 * key_bytes * grid.outer > kGatheredKeyBytes;
}

}  // namespace tessera
