#pragma once

// A line of metrics.jsonl as points of curves.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/observe/event_file.h"

namespace tessera {

struct StepPointsOptions {
  bool device_loss = false;  // monitor.train_state.device_loss
  MoeMonitorConfig moe;
  /// Learning rate of the update with this number, from 0.
  std::function<double(int64_t update)> learning_rate;
};

/// A step's points over steps, and the same scalars with the tag `<tag> vs samples` over samples.
struct StepPoints {
  EventPoints by_step;
  EventPoints by_samples;
};

/// Nothing for a line that is not of a step, or is cut. `skipped` (steps of the run so far that
/// were skipped) follows the lines. What is not a number, and what a line does not have, is left
/// out.
std::optional<StepPoints> step_points(const std::string& line, const StepPointsOptions& options,
                                      int64_t& skipped);

}  // namespace tessera
