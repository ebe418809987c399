#include "tessera/data/loader.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/deal_units.h"
#include "tessera/data/random_state.h"

namespace tessera {

namespace {

// Appends the places of `pieces` of a whole row.
template <typename T>
void append(std::vector<T>& out, const std::vector<T>& row, const Pieces& pieces) {
  for (const Range& piece : pieces) {
    out.insert(out.end(), row.begin() + piece.begin, row.begin() + piece.end);
  }
}

// The row one place to the left, 0 at its end.
template <typename T>
std::vector<T> shifted(const std::vector<T>& row) {
  std::vector<T> result(row.begin() + 1, row.end());
  result.push_back(0);
  return result;
}

void append_row(MicroBatch& batch, SampleColumns columns, const Pieces& own, int64_t row,
                bool next_tokens) {
  append(batch.input_ids, columns.input_ids, own);
  append(batch.labels, columns.labels, own);
  append(batch.position_ids, columns.position_ids, own);
  append(batch.loss_mask, columns.loss_mask, own);
  append(batch.padded, columns.padded, own);
  if (next_tokens) {
    append(batch.next_ids, shifted(columns.input_ids), own);
    append(batch.next_labels, shifted(columns.labels), own);
    append(batch.next_position_ids, shifted(columns.position_ids), own);
    append(batch.next_loss_mask, shifted(columns.loss_mask), own);
  }
  for (const Range& piece : own) {
    for (int64_t place = piece.begin; place < piece.end; ++place)
      batch.place_in_row.push_back(place);
  }
  batch.row_of_token.resize(batch.place_in_row.size(), row);
  batch.document_ends.push_back(std::move(columns.document_ends));
}

int64_t count_ones(const std::vector<uint8_t>& mask) {
  return std::accumulate(mask.begin(), mask.end(), int64_t{0});
}

}  // namespace

DataSupply data_supply(int64_t available, const BatchGrowth& growth, int64_t steps,
                       bool drop_remainder) {
  TESSERA_CHECK(growth.last > 0 && steps >= 0, growth.last, " samples, ", steps, " steps");
  if (available < growth.last) {
    throw ConfigError(
        detail::concat("the data hold ", available, " samples, one step needs ", growth.last));
  }
  DataSupply supply{available, growth, steps, 0, 1, drop_remainder};
  const UpdateSequence updates(growth, available, drop_remainder);
  if (steps > 0) {
    const UpdateSpan last = updates.at(steps - 1);
    supply.passes = (last.place + last.batch - 1) / available + 1;
  }
  UpdateSpan span{0, 0, 0, growth.batch_at(0)};
  while (span.batch != growth.last && span.samples + span.batch <= available) {
    span = {span.step + 1, span.samples + span.batch, 0,
            growth.batch_at(span.samples + span.batch)};
  }
  supply.steps_available =
      static_cast<double>(span.step) +
      static_cast<double>(available - span.samples) / static_cast<double>(span.batch);
  return supply;
}

std::string DataSupply::warning() const {
  if (passes <= 1) return "";
  char lasts[32];
  std::snprintf(lasts, sizeof(lasts), "%.4g", steps_available);
  return detail::concat("data for ", lasts, " steps, ", steps, " asked: the ", available,
                        " samples are read in ", passes, " passes, each in the same order",
                        drop_remainder && !growth.grows() && available % growth.last != 0
                            ? detail::concat(" (drop_remainder leaves out the last ",
                                             available % growth.last, " of each)")
                            : "");
}

Loader::Loader(std::shared_ptr<const SampleSource> source, LoaderOptions options)
    : source_(std::move(source)),
      options_(std::move(options)),
      seq_length_(source_->sample_length() - (options_.columns.add_extra_token ? 1 : 0)),
      fixed_(BatchGrowth::fixed(options_.effective_batch()), source_->size(),
             options_.drop_remainder) {
  TESSERA_CHECK(options_.batch_rank >= 0 && options_.batch_rank < options_.batch_degree &&
                    options_.cp_rank >= 0 && options_.cp_rank < options_.cp_degree,
                "batch rank ", options_.batch_rank, " of ", options_.batch_degree, ", cp rank ",
                options_.cp_rank, " of ", options_.cp_degree);
  if (!options_.may_be_short) {
    data_supply(source_->size(), fixed_.growth(), 0, options_.drop_remainder);
  }
  split_over_ranks(std::vector<int64_t>{seq_length_});
  if (options_.shuffle) {
    permutation_.resize(static_cast<size_t>(source_->size()));
    std::iota(permutation_.begin(), permutation_.end(), int64_t{0});
    RandomState(options_.seed).shuffle(std::span(permutation_));
  }
}

std::vector<Pieces> Loader::split_over_ranks(std::span<const int64_t> document_ends) const {
  const int64_t inner = options_.cp_inner;
  TESSERA_CHECK(inner >= 1 && options_.cp_degree % inner == 0, inner, " neighbours of ",
                options_.cp_degree);
  std::vector<Pieces> ranks;
  for (const Pieces& part :
       split_row(seq_length_, document_ends, options_.cp_degree / inner, options_.balance)) {
    for (Pieces& run : split_pieces(part, inner)) ranks.push_back(std::move(run));
  }
  return ranks;
}

int64_t Loader::sample_of(const UpdateSpan& span, int64_t row) const {
  const int64_t place = (span.place + row) % source_->size();
  return permutation_.empty() ? place : permutation_[static_cast<size_t>(place)];
}

std::vector<int64_t> Loader::step_samples(const UpdateSpan& span) const {
  std::vector<int64_t> samples(static_cast<size_t>(span.batch));
  for (size_t row = 0; row < samples.size(); ++row) {
    samples[row] = sample_of(span, static_cast<int64_t>(row));
  }
  return samples;
}

std::vector<int64_t> Loader::units_of(const UpdateSpan& span, int64_t micro_batches) const {
  const int64_t units = options_.batch_degree * micro_batches;
  std::vector<int64_t> loads(static_cast<size_t>(units), 0);
  // An update that goes on in the next pass stays as it is.
  const bool in_one_pass = span.place % source_->size() + span.batch <= source_->size();
  if (options_.balance_units && units > 1 && micro_batches > 1 && in_one_pass) {
    std::vector<int64_t> tokens(static_cast<size_t>(source_->sample_length()));
    for (int64_t row = 0; row < span.batch; ++row) {
      const int64_t real = source_->read(sample_of(span, row), tokens);
      const SampleMarks marks = source_->marks(sample_of(span, row));
      if (real < source_->sample_length() && marks.document_ends.empty()) {
        // A short sample of a stream: as they are.
        std::ranges::fill(loads, 0);
        break;
      }
      int64_t& load = loads[static_cast<size_t>(row / options_.local_batch_size)];
      int64_t begin = 0;
      for (const int64_t end : make_columns(tokens, real, options_.columns, marks).document_ends) {
        load += (end - begin) * (end - begin);
        begin = end;
      }
    }
  }
  return deal_units(loads, options_.batch_degree, micro_batches);
}

std::vector<MicroBatch> Loader::load(const UpdateSpan& span) const {
  const int64_t smallest = options_.batch_degree * options_.local_batch_size;
  TESSERA_CHECK(span.place >= 0 && span.batch > 0, "an update of ", span.batch, " samples at ",
                span.place);
  const int64_t micro_batches = (span.batch + smallest - 1) / smallest;
  const std::vector<int64_t> units = units_of(span, micro_batches);
  std::vector<MicroBatch> batches;
  for (int64_t j = 0; j < micro_batches; ++j) {
    const int64_t place = options_.batch_rank * micro_batches + j;
    batches.push_back(load_unit(span, units[static_cast<size_t>(place)]));
  }
  return batches;
}

MicroBatch Loader::load_unit(const UpdateSpan& span, int64_t unit) const {
  MicroBatch batch;
  batch.rows = options_.local_batch_size;
  batch.seq_length = seq_length_;
  batch.tokens = batch.rows * seq_length_ / options_.cp_degree;
  const int64_t first = unit * options_.local_batch_size;
  std::vector<int64_t> tokens(static_cast<size_t>(source_->sample_length()));
  for (int64_t row = 0; row < batch.rows; ++row) {
    const bool is_padding = first + row >= span.batch;
    const int64_t sample = is_padding ? -1 : sample_of(span, first + row);
    const int64_t real = is_padding ? 0 : source_->read(sample, tokens);
    const SampleMarks marks = is_padding ? SampleMarks{} : source_->marks(sample);
    if (marks.document_ends.size() > 1 && !options_.columns.packed) {
      throw ConfigError(detail::concat(
          "sample ", sample, " is a row of ", marks.document_ends.size(),
          " conversations that must not see each other: create_compressed_eod_mask must be true"));
    }
    SampleColumns columns = make_columns(tokens, real, options_.columns, marks);
    std::vector<Pieces> pieces = split_over_ranks(columns.document_ends);
    append_row(batch, std::move(columns), pieces[static_cast<size_t>(options_.cp_rank)], row,
               options_.next_tokens);
    batch.sample_ids.push_back(sample);
    batch.pieces.push_back(std::move(pieces));
  }
  TESSERA_CHECK_EQ(batch.input_ids.size(), batch.tokens);
  const int64_t made_up = count_ones(batch.padded);
  if (made_up == 0) batch.padded.clear();
  batch.real_tokens = batch.tokens - made_up;
  batch.unmasked_tokens = count_ones(batch.loss_mask);
  batch.next_unmasked_tokens = count_ones(batch.next_loss_mask);
  return batch;
}

StepPrefetcher::StepPrefetcher(std::shared_ptr<const Loader> loader, UpdateSequence updates,
                               UpdateSpan first, int64_t last)
    : loader_(std::move(loader)), updates_(updates), span_(first), last_(last) {
  start();
}

void StepPrefetcher::start() {
  if (span_.step >= last_) return;
  pending_ = std::async(std::launch::async,
                        [loader = loader_, span = span_] { return loader->load(span); });
}

std::vector<MicroBatch> StepPrefetcher::next() {
  TESSERA_CHECK(span_.step < last_, "all steps are handed out");
  std::vector<MicroBatch> batches = pending_.get();
  span_ = updates_.after(span_);
  start();
  return batches;
}

}  // namespace tessera
