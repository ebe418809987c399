#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tessera/data/indexed_dataset.h"

namespace tessera {

/// The mask beside a token file (see mask_prefix): which tokens count as labels.
class LabelMask {
 public:
  /// The mask of `file`; nothing if there is none. Throws ConfigError if it is not of the same
  /// sequences, or no uint8.
  static std::unique_ptr<const LabelMask> beside(const IndexedDataset& file);

  /// Fills in 1 for tokens [offset, offset + out.size()) of the sequence that count, else 0.
  void read(int64_t sequence, int64_t offset, std::span<uint8_t> out) const;

 private:
  explicit LabelMask(const std::string& prefix) : file_(prefix) {}
  IndexedDataset file_;
};

}  // namespace tessera
