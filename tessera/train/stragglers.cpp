#include "tessera/train/stragglers.h"

#include <algorithm>
#include <cstdio>

#include "tessera/base/error.h"

namespace tessera {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<std::string> places_of(const ParallelDims& dims) {
  std::vector<std::string> places;
  for (int64_t rank = 0; rank < dims.world; ++rank) {
    const Coordinate at = dims.coordinate(rank);
    places.push_back(detail::concat(at.pp, " ", at.cp, " ", at.tp));
  }
  return places;
}

void push(std::deque<double>& last, double value) {
  last.push_back(value);
  if (last.size() > StragglerWatch::kSteps) last.pop_front();
}

}  // namespace

StragglerWatch::StragglerWatch(std::vector<std::string> places)
    : places_(std::move(places)), ratios_(places_.size()), extra_(places_.size()) {}

StragglerWatch::StragglerWatch(const ParallelDims& dims) : StragglerWatch(places_of(dims)) {}

// Of the other ranks at the place of `rank`; 0: it is alone there.
double StragglerWatch::peers_median(const std::vector<double>& own, size_t rank) const {
  std::vector<double> peers;
  for (size_t other = 0; other < places_.size(); ++other) {
    if (other != rank && places_[other] == places_[rank]) peers.push_back(own[other]);
  }
  return median(std::move(peers));
}

std::vector<std::string> StragglerWatch::add(const OwnTimes& times) {
  TESSERA_CHECK(times.own.size() == places_.size() && times.reading.size() == places_.size());
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    const double peers = peers_median(times.own, rank);
    if (peers <= 0.0) continue;
    push(ratios_[rank], times.own[rank] / peers);
    push(extra_[rank], times.reading[rank] / std::max(times.own[rank], 1e-9));
    if (ratios_[rank].size() < kSteps) continue;
    const double ratio = median({ratios_[rank].begin(), ratios_[rank].end()});
    if (ratio <= kFactor) {
      named_.erase(rank);
      continue;
    }
    if (!named_.insert(rank).second) continue;
    const bool reads = median({extra_[rank].begin(), extra_[rank].end()}) > 0.5;
    char text[160];
    std::snprintf(text, sizeof text,
                  "rank %zu holds the others up: over %zu steps it %s %.2f times as long as ranks "
                  "that do the same",
                  rank, kSteps, reads ? "reads its batch" : "computes", ratio);
    lines.emplace_back(text);
  }
  return lines;
}

}  // namespace tessera
