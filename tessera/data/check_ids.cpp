#include "tessera/data/check_ids.h"

#include "tessera/base/error.h"

namespace tessera {

void check_ids(const IdPlace& place, std::span<const int64_t> ids, int64_t vocab_size) {
  if (vocab_size == 0) return;
  const auto limit = static_cast<uint64_t>(vocab_size);  // a negative id is huge
  uint64_t wrong = 0;
  for (const int64_t id : ids) wrong |= static_cast<uint64_t>(id) >= limit;
  if (wrong == 0) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<uint64_t>(ids[i]) < limit) continue;
    const int64_t at = place.offset + static_cast<int64_t>(i);
    throw ConfigError(detail::concat(
        place.file.prefix(), ".bin: token id ", ids[i], " in sequence ", place.sequence,
        " at offset ", at, " (byte ",
        place.file.byte_offset(place.sequence) + at * size_of(place.file.dtype()), "; sample ",
        place.sample, ") is outside the vocabulary: vocab_size is ", vocab_size));
  }
}

}  // namespace tessera
