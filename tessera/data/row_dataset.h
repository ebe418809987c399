#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tessera/data/label_mask.h"
#include "tessera/data/sample_source.h"

namespace tessera {

struct RowOrderSpec {
  int64_t first_document = 0;  // [first, last) of the file are in the phase
  int64_t last_document = 0;
  std::optional<int64_t> samples;  // that many, in whole passes and a part; nothing: one pass
  int64_t seq_length = 0;
  int64_t seed = 1234;
  bool extra_token = true;  // a sample is seq_length + 1 tokens
  bool shuffled = true;     // every pass by itself, from one RandomState(seed)
};

/// Samples of a file of rows: a document of the file is a row, its sequences do not see each other.
/// A row that is longer than a sample is cut, a shorter one is padded.
class RowDataset : public SampleSource {
 public:
  RowDataset(std::shared_ptr<const IndexedDataset> file, const RowOrderSpec& spec,
             int64_t vocab_size);

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }
  int64_t sample_length() const override { return sample_length_; }
  int64_t read(int64_t index, std::span<int64_t> tokens) const override;
  SampleMarks marks(int64_t index) const override;

 private:
  std::shared_ptr<const IndexedDataset> file_;
  std::unique_ptr<const LabelMask> mask_;  // none: every token counts
  std::vector<uint32_t> order_;            // documents
  int64_t sample_length_;
  int64_t vocab_size_;  // 0: ids are not checked
};

/// size() of a RowDataset.
int64_t row_sample_count(const RowOrderSpec& spec);

}  // namespace tessera
