#pragma once

// Puts the parts that the thread ranks of a run hold together into whole tensors.

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/comm/sharded_param.h"
#include "tessera/config/config.h"
#include "tessera/data/sample_source.h"
#include "tessera/optim/optimizers.h"
#include "tessera/train/metrics.h"
#include "tessera/train/parity/faults.h"
#include "tessera/train/parity/stream_sums.h"

namespace tessera {

struct TrainerOptions;

/// What a run of thread ranks did. Filled through record_*(), called by every rank.
class RunRecord {
 public:
  void record_gradients(const ParamTable& table, const DeviceMesh& mesh);
  void record_values(const ParamTable& table, const DeviceMesh& mesh);
  void record_step(const StepMetrics& metrics, const DeviceMesh& mesh);

  /// Has a trainer record every step, the gradients of the first and the values after the last of
  /// `steps`. Must outlive its run.
  void follow(TrainerOptions& options, int64_t steps);

  std::vector<std::string> names;               // in the order of the model (first stage first)
  std::map<std::string, at::Tensor> gradients;  // of step 1, before clipping, whole
  std::map<std::string, at::Tensor> values;     // after the last step, whole
  std::map<std::string, ShardedParam> cuts;     // how a parameter was cut (of some rank)
  std::vector<StepMetrics> steps;
  StreamSums stream;                                 // of step 1
  std::vector<ReplicaDifference> replica_gradients;  // copies that differ
  std::vector<ReplicaDifference> replica_values;

 private:
  void assemble(const ParamTable& table, bool gradients_of);
  void assemble_experts(const ShardedParam& param, bool gradients_of);  // each by its own name
  std::mutex mutex_;
};

/// Trains `steps` updates of `config` (learning rates follow training.steps) on `ranks` thread
/// ranks and keeps what they did. `optimizers` makes the one that the file names. Throws what
/// training throws.
std::unique_ptr<RunRecord> record_run(
    const Config& config, int64_t ranks, int64_t steps,
    const std::shared_ptr<const SampleSource>& source, const Faults& faults = {},
    const OptimizerMakers& optimizers = builtin_optimizer_makers());

}  // namespace tessera
