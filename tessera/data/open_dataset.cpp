#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <thread>
#include <tuple>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/blended_dataset.h"
#include "tessera/data/gpt_dataset.h"
#include "tessera/data/row_dataset.h"
#include "tessera/data/sample_source.h"

namespace tessera {

namespace {

// What megatron-core asks of each file beyond its share, against rounding.
constexpr double kSurplus = 0.005;

const char* name_of(DatasetPhase phase) {
  constexpr const char* kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<int>(phase)];
}

// Calls work(0), …, work(count - 1) on up to `threads` threads; the error of the lowest number
// wins.
template <typename Work>
void for_each_file(int64_t count, int64_t threads, const Work& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::atomic<int64_t> next{0};
  const auto run = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      try {
        work(static_cast<size_t>(i));
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(run);
    run();
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// The files of a phase, what to draw from each, and how to mix it. One path for opening and
// counting.
class Plan {
 public:
  explicit Plan(const DatasetOptions& options) : options_(options) {
    const size_t count = options.prefixes.size();
    TESSERA_CHECK(count > 0 && options.seq_length > 0);
    if (!options.weights.empty()) {
      if (!options.samples) {
        throw ConfigError(detail::concat(
            "weights in data_path need the number of samples: sizes for ", name_of(options.phase)));
      }
      weights_ = normalized(options.weights);
    }
    files_.resize(count);
    specs_.resize(count);
    row_specs_.resize(count);
    for_each_file(static_cast<int64_t>(count), options.threads, [&](size_t i) {
      files_[i] = std::make_shared<const IndexedDataset>(options.prefixes[i]);
      if (rows()) {
        row_specs_[i] = row_spec_of(i);
      } else {
        specs_[i] = spec_of(i);
      }
    });
  }

  bool rows() const { return options_.kind != SampleKind::kStream; }
  bool mixed() const { return files_.size() > 1 || !weights_.empty(); }

  GptIndexShape shape(size_t i) const {
    const GptIndexSpec& spec = specs_[i];
    return shape_of_index(spec, files_[i]->token_count(spec.first_sequence, spec.last_sequence),
                          options_.prefixes[i]);
  }

  // Samples in the mixed order, given how many each file has.
  int64_t mixed_size(const std::vector<int64_t>& sizes) const {
    int64_t total = 0;
    if (weights_.empty()) {
      for (const int64_t size : sizes) total += size;
      return options_.samples ? std::min(*options_.samples, total) : total;
    }
    for (const double weight : weights_) total += share_of(weight);
    return total;
  }

  std::shared_ptr<const SampleSource> open() const {
    std::vector<std::shared_ptr<const SampleSource>> datasets(files_.size());
    for_each_file(static_cast<int64_t>(files_.size()), options_.threads, [&](size_t i) {
      if (rows()) {
        datasets[i] =
            std::make_shared<const RowDataset>(files_[i], row_specs_[i], options_.vocab_size);
      } else {
        datasets[i] = std::make_shared<const GptDataset>(files_[i], specs_[i], options_.vocab_size,
                                                         options_.cache_dir);
      }
    });
    if (!mixed()) return datasets.front();
    std::vector<int64_t> sizes;
    for (const auto& dataset : datasets) sizes.push_back(dataset->size());
    // With weights: normalised once more, as megatron-core does. Without: by size.
    const std::vector<double> weights =
        weights_.empty() ? normalized(std::vector<double>(sizes.begin(), sizes.end()))
                         : normalized(weights_);
    return std::make_shared<const BlendedDataset>(std::move(datasets), weights, mixed_size(sizes),
                                                  options_.cache_dir);
  }

  int64_t count() const {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < files_.size(); ++i) {
      sizes.push_back(rows() ? row_sample_count(row_specs_[i]) : shape(i).samples);
    }
    return mixed() ? mixed_size(sizes) : sizes.front();
  }

 private:
  int64_t share_of(double weight) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(*options_.samples) * weight));
  }

  // [first, last) of the file's sequences, or documents, that are in the phase.
  std::pair<int64_t, int64_t> share_of_file(size_t i) const {
    const IndexedDataset& file = *files_[i];
    const int64_t all = rows() ? file.document_count() : file.sequence_count();
    std::pair<int64_t, int64_t> part{0, all};
    if (options_.split) {
      const auto share = split_share(*options_.split, options_.phase);
      if (!share) {
        throw ConfigError(detail::concat("the split gives ", name_of(options_.phase), " nothing"));
      }
      const auto count = static_cast<double>(all);
      part = {std::llrint(share->begin * count),
              std::llrint(share->end * count)};  // halves to even
    }
    if (part.first >= part.second) {
      throw ConfigError(detail::concat(
          file.prefix(), ".idx: ", all, rows() ? " rows" : " sequences", ", of which ",
          name_of(options_.phase), " gets none", options_.split ? " under the split" : ""));
    }
    return part;
  }

  // Samples to draw from a file; nothing: one pass.
  std::optional<int64_t> samples_of(size_t i) const {
    if (!weights_.empty()) {
      return static_cast<int64_t>(
          std::ceil(static_cast<double>(share_of(weights_[i])) * (1.0 + kSurplus)));
    }
    return mixed() ? std::nullopt : options_.samples;
  }

  RowOrderSpec row_spec_of(size_t i) const {
    RowOrderSpec spec;
    std::tie(spec.first_document, spec.last_document) = share_of_file(i);
    spec.samples = samples_of(i);
    spec.seq_length = options_.seq_length;
    spec.seed = options_.seed;
    spec.extra_token = options_.add_extra_token;
    spec.shuffled = options_.kind == SampleKind::kRows;
    return spec;
  }

  GptIndexSpec spec_of(size_t i) const {
    GptIndexSpec spec;
    std::tie(spec.first_sequence, spec.last_sequence) = share_of_file(i);
    spec.samples = samples_of(i);
    spec.seq_length = options_.seq_length;
    spec.seed = options_.seed;
    spec.extra_token = options_.add_extra_token;
    spec.keep_partial = options_.phase == DatasetPhase::kValid && !options_.drop_last_partial;
    return spec;
  }

  const DatasetOptions& options_;
  std::vector<double> weights_;  // normalised; empty: by size
  std::vector<std::shared_ptr<const IndexedDataset>> files_;
  std::vector<GptIndexSpec> specs_;      // of streams
  std::vector<RowOrderSpec> row_specs_;  // of rows
};

}  // namespace

SampleMarks SampleSource::marks(int64_t) const { return {}; }

std::optional<SplitShare> split_share(std::vector<double> parts, DatasetPhase phase) {
  parts.resize(3, 0.0);
  const std::vector<double> shares = normalized(parts);
  SplitShare share;
  share.end = 0.0;
  for (int i = 0; i <= static_cast<int>(phase); ++i) {
    share.begin = share.end;
    share.end = share.begin + shares[static_cast<size_t>(i)];
  }
  if (share.end <= share.begin) return std::nullopt;
  return share;
}

std::shared_ptr<const SampleSource> open_dataset(const DatasetOptions& options) {
  return Plan(options).open();
}

int64_t count_samples(const DatasetOptions& options) { return Plan(options).count(); }

}  // namespace tessera
