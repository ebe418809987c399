#include "tessera/data/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> file, const GptIndexSpec& spec,
                       int64_t vocab_size, const std::optional<std::string>& cache_dir)
    : file_(std::move(file)),
      index_(*file_, spec, cache_dir),
      sample_length_(spec.seq_length + (spec.extra_token ? 1 : 0)),
      vocab_size_(vocab_size) {}

int64_t GptDataset::read(int64_t index, std::span<int64_t> tokens) const {
  TESSERA_CHECK(index >= 0 && index < size(), "sample ", index, " of ", size());
  TESSERA_CHECK_EQ(tokens.size(), sample_length_);
  GptIndex::Place place = index_.place(*file_, index_.shuffled(index));
  size_t done = 0;
  for (; done < tokens.size() && place.entry < index_.entries(); ++place.entry, place.offset = 0) {
    const int64_t sequence = index_.sequence(place.entry);
    const int64_t left = file_->length(sequence) - place.offset;
    const auto part =
        tokens.subspan(done, std::min(tokens.size() - done, static_cast<size_t>(left)));
    file_->read(sequence, place.offset, part);
    check_ids(index, sequence, place.offset, part);
    done += part.size();
  }
  return static_cast<int64_t>(done);
}

void GptDataset::check_ids(int64_t sample, int64_t sequence, int64_t offset,
                           std::span<const int64_t> ids) const {
  if (vocab_size_ == 0) return;
  const auto limit = static_cast<uint64_t>(vocab_size_);  // a negative id is huge
  uint64_t wrong = 0;
  for (const int64_t id : ids) wrong |= static_cast<uint64_t>(id) >= limit;
  if (wrong == 0) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<uint64_t>(ids[i]) < limit) continue;
    const int64_t at = offset + static_cast<int64_t>(i);
    throw ConfigError(detail::concat(
        file_->prefix(), ".bin: token id ", ids[i], " in sequence ", sequence, " at offset ", at,
        " (byte ", file_->byte_offset(sequence) + at * size_of(file_->dtype()), "; sample ", sample,
        ") is outside the vocabulary: vocab_size is ", vocab_size_));
  }
}

}  // namespace tessera
