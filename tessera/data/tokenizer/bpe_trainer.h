#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera {

/// What a training found: pieces as their raw bytes, in the order of their ids.
struct TrainedBpe {
  std::vector<std::string> pieces;                  // the 256 bytes, then one a merge
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of both parts, the first goes first
};

/// Byte-pair encoding over words that occur `counts` times: the pair of ids that stands most often
/// beside each other becomes a piece, of equals the one with the lowest ids, until there are
/// `vocab_size` pieces or no pair occurs twice. Ids 0 to 255 are the bytes in the order of their
/// letters. O(n log n) in the bytes of the different words.
TrainedBpe train_bpe(const std::unordered_map<std::string, int64_t>& counts, int64_t vocab_size);

}  // namespace tessera
