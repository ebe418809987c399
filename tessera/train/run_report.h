#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/parallel/pipeline_runtime.h"
#include "tessera/train/metrics.h"
#include "tessera/train/trainer.h"

namespace tessera {

/// What a run measured beside what its plan said. One per rank.
class RunReport {
 public:
  /// Counts from now on. All must outlive it.
  RunReport(const DeviceMesh& mesh, const PipelineRuntime& pipeline, const UpdateUse& update);

  void add(const StepMetrics& metrics);

  /// A line for the peak memory, the moments, the work of an update and its memory, and one for
  /// each axis of the plan: of the rank with most; one for the idle time of a pipeline, and where a
  /// machine file lies at its place one for the seconds of a step, from the second step on.
  /// Collective over the world; empty on other ranks than 0, and without a step.
  std::string text(const Config& config) const;

 private:
  double idle_share() const;  // of the stages' time; collective over the world

  const DeviceMesh& mesh_;
  const PipelineRuntime& pipeline_;
  const UpdateUse& update_;
  PipelineRuntime::Times first_step_;
  std::map<Axis, int64_t> before_;  // bytes sent, by axis
  int64_t steps_ = 0;
  int64_t peak_memory_ = 0;
  double seconds_ = 0.0;  // of the steps after the first
};

}  // namespace tessera
