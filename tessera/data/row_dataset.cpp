#include "tessera/data/row_dataset.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/data/check_ids.h"
#include "tessera/data/random_state.h"

namespace tessera {

int64_t row_sample_count(const RowOrderSpec& spec) {
  return spec.samples.value_or(spec.last_document - spec.first_document);
}

RowDataset::RowDataset(std::shared_ptr<const IndexedDataset> file, const RowOrderSpec& spec,
                       int64_t vocab_size)
    : file_(std::move(file)),
      mask_(LabelMask::beside(*file_)),
      sample_length_(spec.seq_length + (spec.extra_token ? 1 : 0)),
      vocab_size_(vocab_size) {
  const int64_t rows = spec.last_document - spec.first_document;
  TESSERA_CHECK(rows > 0, rows);
  if (spec.last_document > std::numeric_limits<uint32_t>::max()) {
    throw ConfigError(file_->prefix() + ".idx: more than 2^32 rows");
  }
  const auto size = static_cast<size_t>(row_sample_count(spec));
  RandomState random(spec.seed);
  std::vector<uint32_t> pass(static_cast<size_t>(rows));
  while (order_.size() < size) {
    std::iota(pass.begin(), pass.end(), static_cast<uint32_t>(spec.first_document));
    if (spec.shuffled) random.shuffle(std::span(pass));
    const auto taken = static_cast<int64_t>(std::min(pass.size(), size - order_.size()));
    order_.insert(order_.end(), pass.begin(), pass.begin() + taken);
  }
}

int64_t RowDataset::read(int64_t index, std::span<int64_t> tokens) const {
  TESSERA_CHECK(index >= 0 && index < size(), "sample ", index, " of ", size());
  TESSERA_CHECK_EQ(tokens.size(), sample_length_);
  const int64_t row = order_[static_cast<size_t>(index)];
  size_t done = 0;
  for (int64_t sequence = file_->document_bound(row);
       sequence < file_->document_bound(row + 1) && done < tokens.size(); ++sequence) {
    const auto part = tokens.subspan(
        done, std::min(tokens.size() - done, static_cast<size_t>(file_->length(sequence))));
    file_->read(sequence, 0, part);
    check_ids({*file_, index, sequence, 0}, part, vocab_size_);
    done += part.size();
  }
  return static_cast<int64_t>(done);
}

SampleMarks RowDataset::marks(int64_t index) const {
  SampleMarks marks;
  marks.counts.resize(static_cast<size_t>(sample_length_));
  const int64_t row = order_[static_cast<size_t>(index)];
  int64_t done = 0;
  for (int64_t sequence = file_->document_bound(row);
       sequence < file_->document_bound(row + 1) && done < sample_length_; ++sequence) {
    const int64_t length = std::min(sample_length_ - done, file_->length(sequence));
    if (length == 0) continue;
    const auto part =
        std::span(marks.counts).subspan(static_cast<size_t>(done), static_cast<size_t>(length));
    if (mask_) {
      mask_->read(sequence, 0, part);
    } else {
      std::ranges::fill(part, uint8_t{1});
    }
    part[0] = 0;  // no token of the same document is in front of it
    done += length;
    marks.document_ends.push_back(done);
  }
  return marks;
}

}  // namespace tessera
