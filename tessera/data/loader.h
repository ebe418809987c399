#pragma once

// From the order of samples to this rank's share of a step. What a step holds depends on (order,
// step, effective global batch) alone; the layout only decides who reads which part of it.

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/columns.h"
#include "tessera/data/sample_source.h"
#include "tessera/data/token_split.h"
#include "tessera/data/update_sequence.h"

namespace tessera {

struct LoaderOptions {
  int64_t batch_rank = 0;  // 0 .. batch_degree - 1, over dp_replicate x dp_shard
  int64_t batch_degree = 1;
  int64_t local_batch_size = 1;  // rows of a micro-batch
  int64_t micro_batches = 1;     // per step and rank; of a growing batch, in the end
  int64_t batch = 0;             // samples of a step; 0: as many as there are places for
  bool balance_units = false;    // see deal_units
  int64_t cp_rank = 0;
  int64_t cp_degree = 1;
  /// Neighbours of the cp group that trade heads for sequence: `balance` concerns the split over
  /// the cp_degree / cp_inner rows of them, inside which a part is cut into equal runs.
  int64_t cp_inner = 1;
  TokenBalance balance = TokenBalance::kContiguous;
  bool drop_remainder = true;  // a pass ends before a step that it cannot fill; else that step
                               // is filled from the start of the next pass
  bool shuffle = false;        // a permutation by `seed` on top of the order
  int64_t seed = 1234;
  bool may_be_short = false;  // data of less than a step are no error: evaluation masks the rest
  bool next_tokens = false;   // also fill next_* (multi-token prediction)
  ColumnOptions columns;

  /// Samples of a step over all batch ranks: E; of a growing batch, in the end.
  int64_t effective_batch() const {
    return batch > 0 ? batch : batch_degree * local_batch_size * micro_batches;
  }
};

/// This rank's tokens of `rows` samples. Arrays marked [tokens] are row after row, each row's
/// places ascending. Labels, positions, masks and next_* were made on whole rows before the cut, so
/// the last token of a slice has its true target.
struct MicroBatch {
  int64_t rows = 0;
  int64_t seq_length = 0;  // of a whole row
  int64_t tokens = 0;      // rows * seq_length / cp_degree

  std::vector<int64_t> input_ids;     // [tokens]
  std::vector<int64_t> labels;        // [tokens]
  std::vector<int64_t> position_ids;  // [tokens]
  std::vector<uint8_t> loss_mask;     // [tokens]
  std::vector<uint8_t> padded;        // [tokens]; empty if nothing was padded
  std::vector<int64_t> row_of_token;  // [tokens] 0 .. rows - 1
  std::vector<int64_t> place_in_row;  // [tokens] 0 .. seq_length - 1
  std::vector<int64_t> sample_ids;    // [rows] index into the order of samples; -1: padding

  // Shifted left by one in the whole row, 0 at its end. Empty without `next_tokens`.
  std::vector<int64_t> next_ids;           // [tokens]
  std::vector<int64_t> next_labels;        // [tokens]
  std::vector<int64_t> next_position_ids;  // [tokens]
  std::vector<uint8_t> next_loss_mask;     // [tokens]

  /// Per row, of the whole row: ends (exclusive) of its documents, the last is seq_length.
  std::vector<std::vector<int64_t>> document_ends;
  /// pieces[row][cp rank]: which places of the row each rank of the cp group holds.
  std::vector<std::vector<Pieces>> pieces;

  /// Labels that count, among this rank's tokens: the sums of loss_mask and next_loss_mask.
  int64_t unmasked_tokens = 0;
  int64_t next_unmasked_tokens = 0;
  /// Tokens of this rank that the loader did not make up: what experts are balanced over.
  int64_t real_tokens = 0;
};

/// How long the data lasts, known before the first step.
struct DataSupply {
  int64_t available = 0;  // samples in the order
  BatchGrowth growth;
  int64_t steps = 0;            // asked for
  double steps_available = 0;   // in one pass; the last may be partial
  int64_t passes = 1;           // over the order, the last may be partial
  bool drop_remainder = false;  // else passes follow on without a gap

  /// The warning to give when passes > 1: "data for 2.5 steps, 5 asked: …"; else empty.
  std::string warning() const;
};

/// Throws ConfigError if there is not even one step in the data.
DataSupply data_supply(int64_t available, const BatchGrowth& growth, int64_t steps,
                       bool drop_remainder);

class Loader {
 public:
  /// Throws ConfigError where lengths or degrees do not divide, or the data hold less than one
  /// step.
  Loader(std::shared_ptr<const SampleSource> source, LoaderOptions options);

  /// The micro-batches of an update of B samples: B is rounded up to P places, a multiple of
  /// D x local_batch_size; batch rank d has places [d P/D, (d + 1) P/D), and micro-batch j the j-th
  /// local_batch_size of those, unless units are balanced. Places from B on are rows of padding,
  /// which no label counts and no expert gets. Pure; may run on any thread.
  std::vector<MicroBatch> load(const UpdateSpan& span) const;
  /// Of step `step` (from 0) of a run whose batch does not grow.
  std::vector<MicroBatch> load(int64_t step) const { return load(fixed_.at(step)); }

  /// Indices into the order of the samples of an update, for all batch ranks [B].
  std::vector<int64_t> step_samples(const UpdateSpan& span) const;
  std::vector<int64_t> step_samples(int64_t step) const { return step_samples(fixed_.at(step)); }

  const LoaderOptions& options() const { return options_; }

 private:
  std::vector<Pieces> split_over_ranks(std::span<const int64_t> document_ends) const;
  int64_t sample_of(const UpdateSpan& span, int64_t row) const;
  /// Which unit of local_batch_size rows is at each place of the update, [D x micro-batches].
  std::vector<int64_t> units_of(const UpdateSpan& span, int64_t micro_batches) const;
  MicroBatch load_unit(const UpdateSpan& span, int64_t unit) const;

  std::shared_ptr<const SampleSource> source_;
  LoaderOptions options_;
  int64_t seq_length_ = 0;
  UpdateSequence fixed_;              // of the effective batch from the beginning
  std::vector<int64_t> permutation_;  // empty without shuffle
};

/// Hands out the steps of a loader in turn and reads the next one meanwhile on another thread. What
/// it hands out is what load() returns; an error of the reading thread is thrown by next().
class StepPrefetcher {
 public:
  /// Updates of `updates` from `first` on, to step `last`.
  StepPrefetcher(std::shared_ptr<const Loader> loader, UpdateSequence updates, UpdateSpan first,
                 int64_t last);
  std::vector<MicroBatch> next();

 private:
  void start();

  std::shared_ptr<const Loader> loader_;
  UpdateSequence updates_;
  UpdateSpan span_;
  int64_t last_;
  std::future<std::vector<MicroBatch>> pending_;
};

}  // namespace tessera
