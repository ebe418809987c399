#pragma once

// Choices by size that the engine makes when the file leaves them open, and that the plan
// foretells.

#include <algorithm>
#include <cstdint>

namespace tessera {

/// Tokens of which the loss makes the logits at once, over `rows` of the vocabulary, which is `cut`
/// over tp or whole: `chunks` pieces; 0: small enough that a piece is worked on in the caches,
/// large enough that the products run at their full rate.
inline int64_t loss_chunk_tokens(int64_t tokens, int64_t rows, int64_t chunks, bool cut) {
  const int64_t elements = int64_t{1} << (cut ? 23 : 22);
  constexpr int64_t kLeastTokens = 256;
  if (chunks > 0) return std::max<int64_t>(1, (tokens + chunks - 1) / chunks);
  return std::max(kLeastTokens, elements / std::max<int64_t>(1, rows));
}

}  // namespace tessera
