#include "tessera/data/gpt_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "tessera/base/error.h"
#include "tessera/data/random_state.h"

namespace tessera {

namespace {

// A document index beyond this is a mistake in `sizes`, not a wish.
constexpr int64_t kMostEntries = int64_t{1} << 34;

int64_t partial_sample_count(int64_t tokens, int64_t seq_length) {
  // megatron-core divides in float32; what lies beyond the tokens does not exist.
  const auto rounded =
      static_cast<int64_t>(std::ceil(static_cast<float>(tokens) / static_cast<float>(seq_length)));
  return std::min(rounded, (tokens + seq_length - 1) / seq_length);
}

template <typename T>
void fill_shuffle(T* shuffle, const GptIndexShape& shape, RandomState& random) {
  const std::span<T> all(shuffle, static_cast<size_t>(shape.samples));
  std::iota(all.begin(), all.end(), T{0});
  const auto first = static_cast<size_t>(shape.samples_before_last);
  random.shuffle(all.first(first));
  random.shuffle(all.subspan(first));
}

void fill_documents(uint32_t* documents, const GptIndexSpec& spec, const GptIndexShape& shape,
                    RandomState& random) {
  const int64_t count = spec.last_sequence - spec.first_sequence;
  for (int64_t epoch = 0; epoch < shape.epochs; ++epoch) {
    std::iota(documents + epoch * count, documents + (epoch + 1) * count,
              static_cast<uint32_t>(spec.first_sequence));
  }
  const int64_t together = (shape.epochs - (shape.separate_last_epoch ? 1 : 0)) * count;
  random.shuffle(std::span(documents, static_cast<size_t>(together)));
  random.shuffle(
      std::span(documents + together, static_cast<size_t>(shape.epochs * count - together)));
}

// Sample k begins at token k * seq_length of the shuffled sequences laid end to end.
void fill_marks(GptIndex::Place* marks, int64_t mark_count, int64_t tokens_per_mark,
                const IndexedDataset& file, std::span<const uint32_t> documents) {
  int64_t begin = 0;
  int64_t mark = 0;
  for (size_t entry = 0; entry < documents.size() && mark < mark_count; ++entry) {
    const int64_t end = begin + file.length(documents[entry]);
    for (; mark < mark_count && mark * tokens_per_mark < end; ++mark) {
      marks[mark] = {static_cast<int64_t>(entry), mark * tokens_per_mark - begin};
    }
    begin = end;
  }
  TESSERA_CHECK_EQ(mark, mark_count, "the samples reach beyond the tokens");
}

std::string describe(const IndexedDataset& file, const GptIndexSpec& spec) {
  return detail::concat(
      "gpt index 1\nsequences ", spec.first_sequence, " ", spec.last_sequence, "\nlengths ",
      file.lengths_checksum(spec.first_sequence, spec.last_sequence), "\nsamples ",
      spec.samples.value_or(-1), "\nseq_length ", spec.seq_length, "\nseed ", spec.seed,
      "\nextra_token ", spec.extra_token, "\nkeep_partial ", spec.keep_partial, "\n");
}

}  // namespace

GptIndexShape shape_of_index(const GptIndexSpec& spec, int64_t tokens_per_epoch,
                             const std::string& file) {
  const auto refuse = [&](const auto&... what) {
    throw ConfigError(file + ": " + detail::concat(what...));
  };
  TESSERA_CHECK(spec.seq_length > 0, "seq_length ", spec.seq_length);
  const int64_t extra = spec.extra_token ? 1 : 0;
  const int64_t s = spec.seq_length;
  GptIndexShape shape;
  shape.tokens_per_epoch = tokens_per_epoch;
  if (tokens_per_epoch == 0) refuse("no tokens in the part of the file that this phase gets");
  if (spec.samples) {
    if (*spec.samples < 0) refuse("cannot draw ", *spec.samples, " samples");
    if (*spec.samples > (std::numeric_limits<int64_t>::max() - 1) / 2 / s) {
      refuse(*spec.samples, " samples of ", s, " tokens are more than can be counted");
    }
    const int64_t tokens = *spec.samples * s + extra;
    shape.epochs = std::max<int64_t>(1, (tokens + tokens_per_epoch - 1) / tokens_per_epoch);
  }
  const int64_t count = spec.last_sequence - spec.first_sequence;
  if (shape.epochs > kMostEntries / std::max<int64_t>(count, 1)) {
    refuse(spec.samples.value_or(0), " samples are ", shape.epochs, " epochs of its ", count,
           " sequences: an index of more than ", kMostEntries, " entries. Ask for fewer (sizes)");
  }
  const int64_t tokens = shape.epochs * tokens_per_epoch - extra;
  shape.samples = spec.keep_partial ? partial_sample_count(tokens, s) : tokens / s;
  if (shape.samples == 0) {
    refuse("one epoch has ", tokens_per_epoch, " tokens, one sample needs ", s + extra);
  }
  shape.samples_before_last = shape.samples;
  if (shape.epochs > 1) {
    const int64_t before = ((shape.epochs - 1) * tokens_per_epoch - extra) / s;
    const int64_t per_epoch = (tokens_per_epoch - extra) / s;
    const auto threshold = static_cast<int64_t>(0.80 * static_cast<double>(per_epoch));
    if (*spec.samples - before < threshold) {
      shape.separate_last_epoch = true;
      shape.samples_before_last = before;
    }
  }
  return shape;
}

GptIndex::GptIndex(const IndexedDataset& file, const GptIndexSpec& spec,
                   const std::optional<std::string>& cache_dir)
    : spec_(spec),
      shape_(shape_of_index(spec, file.token_count(spec.first_sequence, spec.last_sequence),
                            file.prefix())),
      entries_(shape_.entries(spec)),
      wide_(shape_.samples >= std::numeric_limits<uint32_t>::max() - int64_t{1}) {
  if (file.sequence_count() > std::numeric_limits<uint32_t>::max()) {
    throw ConfigError(detail::concat(file.prefix(), ".idx: ", file.sequence_count(),
                                     " sequences, at most 4294967295 are indexed"));
  }
  // The end is a place too, if there is a token.
  const int64_t tokens = shape_.epochs * shape_.tokens_per_epoch;
  const int64_t last =
      shape_.samples * spec.seq_length < tokens ? shape_.samples : shape_.samples - 1;
  const int64_t mark_count = last / kStride + 1;
  const int64_t documents_at = mark_count * static_cast<int64_t>(sizeof(Place));
  const int64_t shuffle_at = (documents_at + 4 * entries_ + 7) / 8 * 8;
  const int64_t bytes = shuffle_at + shape_.samples * (wide_ ? 8 : 4);

  const auto build = [&](std::byte* block) {
    RandomState random(spec.seed);
    auto* documents = reinterpret_cast<uint32_t*>(block + documents_at);
    fill_documents(documents, spec, shape_, random);
    if (wide_) {
      fill_shuffle(reinterpret_cast<uint64_t*>(block + shuffle_at), shape_, random);
    } else {
      fill_shuffle(reinterpret_cast<uint32_t*>(block + shuffle_at), shape_, random);
    }
    fill_marks(reinterpret_cast<Place*>(block), mark_count, kStride * spec.seq_length, file,
               {documents, static_cast<size_t>(entries_)});
  };
  block_ = cached_block(cache_dir, "gpt", describe(file, spec), bytes, build);
  marks_ = reinterpret_cast<const Place*>(block_.data());
  documents_ = reinterpret_cast<const uint32_t*>(block_.data() + documents_at);
  shuffle32_ = reinterpret_cast<const uint32_t*>(block_.data() + shuffle_at);
  shuffle64_ = reinterpret_cast<const uint64_t*>(block_.data() + shuffle_at);
}

GptIndex::Place GptIndex::place(const IndexedDataset& file, int64_t sample) const {
  Place place = marks_[sample / kStride];
  place.offset += sample % kStride * spec_.seq_length;
  while (place.offset >= file.length(sequence(place.entry))) {
    place.offset -= file.length(sequence(place.entry));
    ++place.entry;
  }
  return place;
}

}  // namespace tessera
