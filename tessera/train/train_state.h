#pragma once

// monitor.train_state: losses and gradients of single ranks and micro-batches, for those who look
// for the place where a run goes wrong.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/nn/step_context.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// What a step did, for the monitor.
struct TrainStateStep {
  int64_t number = 0;  // from 1
  double loss = 0;     // of the global batch
  int64_t labels = 0;  // of the global batch that count
  /// Of this rank: labels that count, of each micro-batch.
  std::vector<int64_t> micro_batch_labels;
};

/// One per rank.
class TrainStateMonitor {
 public:
  /// Watches the gradients of `model`, where the file asks for norms; must outlive its steps.
  TrainStateMonitor(const TrainStateConfig& config, ParallelModel& model);

  bool on() const;

  /// Gathers what all ranks saw: a JSON object on rank 0, empty on the others. Collective over the
  /// world.
  std::string end_step(const TrainStateStep& step, const Sinks& sinks, const DeviceMesh& mesh);

  /// The lines of this rank's last step, as MindFormers writes them.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  TrainStateConfig config_;
  std::vector<std::string> names_;                        // in the order in which gradients arrive
  std::map<std::string, std::vector<at::Tensor>> norms_;  // [micro-batch] scalars, of this step
  std::vector<std::string> lines_;
};

}  // namespace tessera
