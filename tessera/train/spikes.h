#pragma once

// Steps whose gradient norm leaps: the update that such a step would make is not wanted.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/config.h"

namespace tessera {

class SpikeWatch {
 public:
  /// `norms`: those of the last steps that counted, the oldest first, of a run that goes on.
  explicit SpikeWatch(const SpikeConfig& config, std::vector<double> norms = {});

  bool on() const { return config_.factor > 0; }
  /// Whether `norm` exceeds factor times the median of the last `window` norms. Never before there
  /// are so many. The median of an even number is the lower one of the two in the middle.
  bool is_spike(double norm) const;
  /// The norm of a step that counts.
  void add(double norm);
  /// At most `window`, the oldest first: what a run needs to go on alike.
  const std::vector<double>& norms() const { return norms_; }
  double median() const;
  /// "gradient norm 9 is more than 3 times 2, the median of the last 4"
  std::string text(double norm) const;

 private:
  SpikeConfig config_;
  std::vector<double> norms_;
};

}  // namespace tessera
