#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/data/indexed_dataset.h"

namespace tessera {

/// What a .bin/.idx pair holds.
struct TokenFileReport {
  std::string prefix;
  TokenDtype dtype = TokenDtype::kInt32;
  int64_t sequences = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t shortest = 0;  // sequence, in tokens
  int64_t longest = 0;
  double mean_length = 0.0;
  int64_t bin_bytes = 0;
  int64_t unused_bytes = 0;  // of the .bin, in no sequence

  // Only with `read_tokens`.
  bool tokens_read = false;
  int64_t smallest_id = 0;
  int64_t largest_id = 0;
  int64_t eod_count = 0;  // of `eod`, if given
};

/// Opens the pair (which checks header, lengths, offsets and bounds) and, with `read_tokens`, reads
/// every token. Throws ConfigError: damaged file; a negative id (file, sequence, offset).
TokenFileReport inspect_token_file(const std::string& prefix, bool read_tokens,
                                   std::optional<int64_t> eod = std::nullopt);

/// Lines for a person.
std::string to_text(const TokenFileReport& report);

/// Whether `path` (with or without .bin, .idx) names such a pair.
bool is_token_file(const std::string& path);

}  // namespace tessera
