#pragma once

#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

struct WeightActionOptions {
  /// Gathered once a step and kept: kUnshard one computation ahead of a chunk's first forward,
  /// kReshard after its last backward. Otherwise each computation gathers for itself, and the
  /// schedule does not show it.
  bool gather_once = true;
  /// kReduceGradients behind every backward of a chunk, else behind its last one only.
  bool reduce_every_backward = false;
};

/// Adds the points where a chunk's weights are gathered and freed and its gradients summed. A
/// reduction stands after the send of the same backward, so that the neighbour does not wait for
/// it.
void add_weight_actions(PipelineSchedule& schedule, const WeightActionOptions& options);

}  // namespace tessera
