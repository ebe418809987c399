#include "tessera/data/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/check_ids.h"

namespace tessera {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> file, const GptIndexSpec& spec,
                       int64_t vocab_size, const std::optional<std::string>& cache_dir)
    : file_(std::move(file)),
      mask_(LabelMask::beside(*file_)),
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
    check_ids({*file_, index, sequence, place.offset}, part, vocab_size_);
    done += part.size();
  }
  return static_cast<int64_t>(done);
}

SampleMarks GptDataset::marks(int64_t index) const {
  SampleMarks marks;
  if (!mask_) return marks;
  marks.counts.resize(static_cast<size_t>(sample_length_));
  GptIndex::Place place = index_.place(*file_, index_.shuffled(index));
  size_t done = 0;
  for (; done < marks.counts.size() && place.entry < index_.entries();
       ++place.entry, place.offset = 0) {
    const int64_t sequence = index_.sequence(place.entry);
    const auto left = static_cast<size_t>(file_->length(sequence) - place.offset);
    const auto part =
        std::span(marks.counts).subspan(done, std::min(marks.counts.size() - done, left));
    mask_->read(sequence, place.offset, part);
    done += part.size();
  }
  return marks;
}

}  // namespace tessera
