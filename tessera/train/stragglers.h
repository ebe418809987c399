#pragma once

// Ranks that hold the others up although nothing is wrong with them.

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// What each rank did in one step, by rank; seconds.
struct OwnTimes {
  std::vector<double> own;      // of the step, without waits for other ranks
  std::vector<double> reading;  // of that, until its batch was there
};

class StragglerWatch {
 public:
  /// `places`: of each rank of the world; ranks with the same text do the same work (stage, places
  /// in tp and cp).
  explicit StragglerWatch(std::vector<std::string> places);
  explicit StragglerWatch(const ParallelDims& dims);

  /// One line for each rank that has become a straggler with this step: over the last kSteps steps
  /// the middle one of its own times, each divided by the middle one of the other ranks at its
  /// place, exceeds kFactor. It is named again after it has been none.
  std::vector<std::string> add(const OwnTimes& times);

  static constexpr double kFactor = 1.3;
  static constexpr size_t kSteps = 20;

 private:
  double peers_median(const std::vector<double>& own, size_t rank) const;

  std::vector<std::string> places_;
  std::vector<std::deque<double>> ratios_;  // [rank], of the last steps
  std::vector<std::deque<double>> extra_;   // [rank], part of the surplus that is reading
  std::set<size_t> named_;
};

}  // namespace tessera
