#include "tessera/train/spikes.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {

SpikeWatch::SpikeWatch(const SpikeConfig& config, std::vector<double> norms) : config_(config) {
  for (const double norm : norms) add(norm);
}

double SpikeWatch::median() const {
  if (norms_.empty()) return 0.0;
  std::vector<double> sorted = norms_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

bool SpikeWatch::is_spike(double norm) const {
  if (!on() || static_cast<int64_t>(norms_.size()) < config_.window) return false;
  return norm > config_.factor * median();
}

std::string SpikeWatch::text(double norm) const {
  return detail::concat("gradient norm ", norm, " is more than ", config_.factor, " times ",
                        median(), ", the median of the last ", norms_.size());
}

void SpikeWatch::add(double norm) {
  if (!on()) return;
  norms_.push_back(norm);
  if (static_cast<int64_t>(norms_.size()) > config_.window) norms_.erase(norms_.begin());
}

}  // namespace tessera
