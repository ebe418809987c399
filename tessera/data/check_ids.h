#pragma once

#include <cstdint>
#include <span>

#include "tessera/data/indexed_dataset.h"

namespace tessera {

/// Where ids were read.
struct IdPlace {
  const IndexedDataset& file;
  int64_t sample;
  int64_t sequence;
  int64_t offset;
};

/// Throws ConfigError if an id is not below `vocab_size` (0: not checked).
void check_ids(const IdPlace& place, std::span<const int64_t> ids, int64_t vocab_size);

}  // namespace tessera
