#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// What a token file says of a sample beside its tokens.
struct SampleMarks {
  /// [sample_length()] 1: the token counts where it is a label. Empty: every token does.
  std::vector<uint8_t> counts;
  /// Ends (exclusive, ascending) of the documents in the sample's tokens. Empty: EOD tokens tell.
  std::vector<int64_t> document_ends;
};

/// A fixed order of samples, each of sample_length() tokens. Immutable: any thread may read, and
/// thread ranks share one.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// Samples in the order, all epochs of the index together.
  virtual int64_t size() const = 0;
  /// Tokens that read() fills: seq_length, and one more where labels are the tokens shifted.
  virtual int64_t sample_length() const = 0;
  /// Fills `tokens` [sample_length()] with sample `index` of the order. Returns how many came from
  /// the files; the rest is left as it was (only a last, partial sample has one).
  /// Throws ConfigError on a token id outside the vocabulary: file, sequence, offset, sample.
  virtual int64_t read(int64_t index, std::span<int64_t> tokens) const = 0;
  /// Marks of sample `index`; without a mask beside the file there are none.
  virtual SampleMarks marks(int64_t index) const;
};

/// How the samples of a token file are made.
enum class SampleKind {
  kStream,       // sequences end to end, cut every seq_length tokens: GPTDataset
  kRows,         // a document is a row, in shuffled epochs: SFTDataset
  kRowsInOrder,  // the same in the order of the file
};

enum class DatasetPhase { kTrain = 0, kValid = 1, kTest = 2 };

/// Share of the sequences that a phase gets, as [begin, end) in 0..1, from the parts of train,
/// valid and test (those that are missing are 0; not all may be); nothing where its part is 0.
struct SplitShare {
  double begin = 0.0;
  double end = 1.0;
};
std::optional<SplitShare> split_share(std::vector<double> parts, DatasetPhase phase);

struct DatasetOptions {
  std::vector<std::string> prefixes;  // of token files
  std::vector<double> weights;        // by which they are mixed; none: by size
  std::optional<std::vector<double>>
      split;  // parts; nothing: the phase has the whole of every file
  DatasetPhase phase = DatasetPhase::kTrain;
  std::optional<int64_t> samples;  // dataloader.sizes[phase]; nothing: one epoch
  SampleKind kind = SampleKind::kStream;
  int64_t seq_length = 0;
  int64_t seed = 1234;                   // 0 .. 2^32 - 1
  bool add_extra_token = true;           // a sample is seq_length + 1 tokens
  bool drop_last_partial = true;         // false keeps the last, padded sample (valid phase only)
  int64_t vocab_size = 0;                // ids must be below; 0: not checked
  std::optional<std::string> cache_dir;  // path_to_cache; nothing: indices are built in memory
  int64_t threads = 1;                   // num_dataset_builder_threads
};

/// Opens the files and builds (or maps from the cache) the order of samples that megatron-core 0.16
/// computes. Throws ConfigError: missing or damaged file, no sequences in the phase, too few
/// tokens.
std::shared_ptr<const SampleSource> open_dataset(const DatasetOptions& options);

/// size() of what open_dataset would return, without building an index.
int64_t count_samples(const DatasetOptions& options);

}  // namespace tessera
