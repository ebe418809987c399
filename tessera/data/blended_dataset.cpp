#include "tessera/data/blended_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/hash.h"

namespace tessera {

namespace {

// numpy adds up to 128 numbers in eight interleaved sums, and halves longer arrays.
double pairwise_sum(std::span<const double> values) {
  const size_t n = values.size();
  if (n < 8) {
    double sum = 0.0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (n > 128) {
    const size_t half = n / 2 - n / 2 % 8;
    return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
  }
  double r[8];
  std::copy_n(values.begin(), 8, r);
  size_t i = 8;
  for (; i < n - n % 8; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) r[lane] += values[i + lane];
  }
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; ++i) sum += values[i];
  return sum;
}

template <typename T>
uint64_t checksum_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return checksum64(bytes.data(), static_cast<int64_t>(bytes.size()));
}

}  // namespace

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = pairwise_sum(weights);
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) share /= sum;
  return shares;
}

void fill_blend_order(std::span<BlendEntry> order, std::span<const double> weights,
                      std::span<const int64_t> sizes) {
  std::vector<int64_t> taken(weights.size(), 0);
  std::vector<size_t> open;  // datasets that have samples left, ascending
  for (size_t j = 0; j < weights.size(); ++j) {
    if (sizes[j] > 0) open.push_back(j);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    TESSERA_CHECK(!open.empty(), "the datasets hold fewer samples than the blend: ", i);
    const double so_far = std::max(static_cast<double>(i), 1.0);
    size_t best = 0;
    double largest = 0.0;
    for (size_t k = 0; k < open.size(); ++k) {
      const double missing = weights[open[k]] * so_far - static_cast<double>(taken[open[k]]);
      if (k == 0 || missing > largest) {
        largest = missing;
        best = k;
      }
    }
    const size_t dataset = open[best];
    order[i].sample = static_cast<uint64_t>(taken[dataset]) & ((uint64_t{1} << 48) - 1);
    order[i].dataset = static_cast<uint16_t>(dataset);
    if (++taken[dataset] == sizes[dataset]) open.erase(open.begin() + static_cast<int64_t>(best));
  }
}

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const SampleSource>> datasets,
                               const std::vector<double>& weights, int64_t size,
                               const std::optional<std::string>& cache_dir)
    : datasets_(std::move(datasets)), size_(size) {
  TESSERA_CHECK(!datasets_.empty() && datasets_.size() == weights.size());
  if (datasets_.size() > 32766) {
    throw ConfigError(
        detail::concat("data_path names ", datasets_.size(), " token files; 32766 can be blended"));
  }
  std::vector<int64_t> sizes;
  for (const auto& dataset : datasets_) {
    TESSERA_CHECK_EQ(dataset->sample_length(), sample_length());
    sizes.push_back(dataset->size());
  }
  const std::string description = detail::concat(
      "blend 1\ndatasets ", weights.size(), "\nweights ", checksum_of<double>(weights), "\nsizes ",
      checksum_of<int64_t>(sizes), "\nsize ", size, "\n");
  const auto build = [&](std::byte* block) {
    fill_blend_order({reinterpret_cast<BlendEntry*>(block), static_cast<size_t>(size)}, weights,
                     sizes);
  };
  block_ = cached_block(cache_dir, "blend", description,
                        size * static_cast<int64_t>(sizeof(BlendEntry)), build);
  order_ = reinterpret_cast<const BlendEntry*>(block_.data());
}

int64_t BlendedDataset::read(int64_t index, std::span<int64_t> tokens) const {
  TESSERA_CHECK(index >= 0 && index < size_, "sample ", index, " of ", size_);
  const BlendEntry entry = order_[index];
  return datasets_[entry.dataset]->read(static_cast<int64_t>(entry.sample), tokens);
}

SampleMarks BlendedDataset::marks(int64_t index) const {
  const BlendEntry entry = order_[index];
  return datasets_[entry.dataset]->marks(static_cast<int64_t>(entry.sample));
}

}  // namespace tessera
