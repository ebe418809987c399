#pragma once

#include <memory>

#include "tessera/data/gpt_index.h"
#include "tessera/data/label_mask.h"
#include "tessera/data/sample_source.h"

namespace tessera {

/// The samples of one token file, in the order of its GptIndex.
class GptDataset : public SampleSource {
 public:
  GptDataset(std::shared_ptr<const IndexedDataset> file, const GptIndexSpec& spec,
             int64_t vocab_size, const std::optional<std::string>& cache_dir);

  int64_t size() const override { return index_.shape().samples; }
  int64_t sample_length() const override { return sample_length_; }
  int64_t read(int64_t index, std::span<int64_t> tokens) const override;
  SampleMarks marks(int64_t index) const override;

  const GptIndex& index() const { return index_; }
  const IndexedDataset& file() const { return *file_; }

 private:
  std::shared_ptr<const IndexedDataset> file_;
  std::unique_ptr<const LabelMask> mask_;  // none: every token counts
  GptIndex index_;
  int64_t sample_length_;
  int64_t vocab_size_;  // 0: ids are not checked
};

}  // namespace tessera
