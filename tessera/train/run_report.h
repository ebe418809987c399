#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/config/config.h"
#include "tessera/dist/device_mesh.h"
#include "tessera/train/metrics.h"

namespace tessera {

/// What a run measured beside what its plan said. One per rank.
class RunReport {
 public:
  /// Counts from now on.
  explicit RunReport(const DeviceMesh& mesh);

  void add(const StepMetrics& metrics);

  /// A line for the peak memory and one for each axis of the plan: of the rank with most.
  /// Collective over the world; empty on other ranks than 0, and without a step.
  std::string text(const Config& config, const DeviceMesh& mesh) const;

 private:
  std::map<std::string, int64_t> before_;  // bytes sent, by axis
  int64_t steps_ = 0;
  int64_t peak_memory_ = 0;
};

}  // namespace tessera
