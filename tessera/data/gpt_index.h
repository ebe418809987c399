#pragma once

// The order of samples over one token file, as megatron-core 0.16 computes it: sequences are
// shuffled (document index), laid end to end and cut every seq_length tokens (sample index), and
// the samples are shuffled again (shuffle index). All from one RandomState(seed), in that order.

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/data/index_cache.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {

struct GptIndexSpec {
  int64_t first_sequence = 0;  // [first, last) of the file are in the phase
  int64_t last_sequence = 0;
  std::optional<int64_t> samples;  // at least so many; nothing: one epoch
  int64_t seq_length = 0;
  int64_t seed = 1234;
  bool extra_token = true;    // a sample is seq_length + 1 tokens, the last one read again as the
                              // first of the next
  bool keep_partial = false;  // the last sample may be short
};

/// What follows from counts alone.
struct GptIndexShape {
  int64_t tokens_per_epoch = 0;
  int64_t epochs = 1;
  int64_t samples = 0;  // in all epochs
  /// The last epoch is shuffled by itself, because less than 80 % of it was asked for; the samples
  /// before it are then shuffled among themselves.
  bool separate_last_epoch = false;
  int64_t samples_before_last = 0;  // all, unless the last epoch is separate

  int64_t entries(const GptIndexSpec& spec) const {  // of the document index
    return epochs * (spec.last_sequence - spec.first_sequence);
  }
};

/// Throws ConfigError where the phase has no token or not one sample, or the index would not fit
/// into memory; `file` is named in it.
GptIndexShape shape_of_index(const GptIndexSpec& spec, int64_t tokens_per_epoch,
                             const std::string& file);

class GptIndex {
 public:
  /// Where a sample begins: entry of the document index, token in that sequence.
  struct Place {
    int64_t entry = 0;
    int64_t offset = 0;
    bool operator==(const Place&) const = default;
  };

  /// Builds it, or maps it from `cache_dir`.
  GptIndex(const IndexedDataset& file, const GptIndexSpec& spec,
           const std::optional<std::string>& cache_dir);

  const GptIndexShape& shape() const { return shape_; }
  int64_t entries() const { return entries_; }
  /// Sequence of entry `entry`: the document index.
  int64_t sequence(int64_t entry) const { return documents_[entry]; }
  /// Unshuffled number of sample `sample`: the shuffle index.
  int64_t shuffled(int64_t sample) const {
    return wide_ ? static_cast<int64_t>(shuffle64_[sample]) : shuffle32_[sample];
  }
  /// Where unshuffled sample `sample` begins (also the end, sample = shape().samples, if a token is
  /// left there): the sample index. It is kept for every kStride-th sample and walked to.
  Place place(const IndexedDataset& file, int64_t sample) const;

  /// Bytes held.
  int64_t bytes() const { return block_.size(); }

 private:
  static constexpr int64_t kStride = 16;

  GptIndexSpec spec_;
  GptIndexShape shape_;
  int64_t entries_ = 0;
  bool wide_ = false;  // 2^32 - 2 samples and more
  CachedBlock block_;  // marks, document index, shuffle index
  const Place* marks_ = nullptr;
  const uint32_t* documents_ = nullptr;
  const uint32_t* shuffle32_ = nullptr;
  const uint64_t* shuffle64_ = nullptr;
};

}  // namespace tessera
