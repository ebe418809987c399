#pragma once

// Several sample orders mixed into one, as megatron-core's BlendedDataset does it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/index_cache.h"
#include "tessera/data/sample_source.h"

namespace tessera {

/// weights / sum(weights); the sum is added up in numpy's order, so that the quotients are bitwise
/// megatron-core's.
std::vector<double> normalized(std::span<const double> weights);

/// Entry i of the order: sample `sample` of dataset `dataset`.
struct BlendEntry {
  uint64_t sample : 48;
  uint64_t dataset : 16;
};

/// Fills `order`: entry i comes from the dataset whose share w_j max(i, 1) - taken_j is largest
/// (the first of equals). A dataset whose `sizes` are used up is passed over; together they must
/// suffice.
void fill_blend_order(std::span<BlendEntry> order, std::span<const double> weights,
                      std::span<const int64_t> sizes);

class BlendedDataset : public SampleSource {
 public:
  /// `weights` as given to fill_blend_order. Not empty, all of one sample_length().
  BlendedDataset(std::vector<std::shared_ptr<const SampleSource>> datasets,
                 const std::vector<double>& weights, int64_t size,
                 const std::optional<std::string>& cache_dir);

  int64_t size() const override { return size_; }
  int64_t sample_length() const override { return datasets_.front()->sample_length(); }
  int64_t read(int64_t index, std::span<int64_t> tokens) const override;
  SampleMarks marks(int64_t index) const override;

  BlendEntry entry(int64_t index) const { return order_[index]; }
  const SampleSource& dataset(int64_t number) const {
    return *datasets_[static_cast<size_t>(number)];
  }

 private:
  std::vector<std::shared_ptr<const SampleSource>> datasets_;
  int64_t size_;
  CachedBlock block_;
  const BlendEntry* order_ = nullptr;
};

}  // namespace tessera
