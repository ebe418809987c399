#pragma once

// One rank of a training run. train_step() is the data path of a step, top to bottom.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/timeline.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/data/loader.h"
#include "tessera/launcher/rank_page.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/optim/optimizers.h"
#include "tessera/parallel/parallel_model.h"
#include "tessera/parallel/pipeline_runtime.h"
#include "tessera/train/evaluation.h"
#include "tessera/train/make_contexts.h"
#include "tessera/train/metrics.h"
#include "tessera/train/parity/faults.h"
#include "tessera/train/run_checkpoints.h"
#include "tessera/train/spikes.h"
#include "tessera/train/step_sums.h"
#include "tessera/train/stragglers.h"
#include "tessera/train/train_state.h"

namespace tessera {

/// What the ranks of one process share, and hooks for those who watch a run.
struct TrainerOptions {
  std::shared_ptr<const SampleSource> source;  // opened once per process
  std::vector<EvalSet> eval_sets;              // likewise
  /// Ends the run after this update, while learning rates follow training.steps; 0: does not.
  int64_t stop_after = 0;
  /// Called on every rank with its model, before the first step.
  std::function<void(ParallelModel&, const DeviceMesh&)> on_model;
  /// Called on every rank when the gradients of a step are finished, before clipping.
  std::function<void(int64_t step, const ParamTable&, const DeviceMesh&)> on_gradients;
  /// Called on every rank after each update.
  std::function<void(const StepMetrics&, const ParamTable&, const DeviceMesh&)> on_step;
  /// Set by a signal: the run ends after the current step, on all ranks alike.
  const std::atomic<int>* stop_signal = nullptr;
  Faults faults;
  Generation generation;                                    // which start of the run this is
  OptimizerMakers optimizers = builtin_optimizer_makers();  // that config.optimizer.type may name
  FamilyTable families = builtin_families();                // that the file was read with
  std::shared_ptr<RankPage> page;  // tells the launcher how far this rank is, or null
  /// Called on every rank when the run has gone back to its last good state, with the samples
  /// trained on there and the steps done.
  std::function<void(int64_t samples, int64_t steps)> on_go_back;
  Timeline* timeline = nullptr;  // of this rank: what happens when; outlives the trainer
};

/// What the updates of a rank took.
struct UpdateUse {
  int64_t moments = 0;  // bytes that it keeps between updates
  int64_t memory = 0;   // the most that an update needed beside what was there before it
  double flops = 0;     // of the matrix products of the last update
};

class Trainer {
 public:
  /// Collective over `world`. Throws ConfigError, CheckpointError.
  Trainer(Config config, const ProcessGroup& world, TrainerOptions options);

  /// Steps until training.steps, or until a signal asked to stop; saves on the way and at the end,
  /// as the file says. Returns that signal, else 0. Throws NonFiniteError on every rank alike when
  /// a loss or norm is not finite.
  int run();

  StepMetrics train_step();

  /// Updates so far; not 0 at the start of a run that resumes.
  int64_t steps_done() const { return state_.next.step; }
  /// Samples that were trained on so far; not 0 at the start of a run that resumes.
  int64_t samples() const { return state_.next.samples; }
  ParamTable& table() { return model_->table; }
  const PipelineRuntime& pipeline() const { return *pipeline_; }
  const UpdateUse& update_use() const { return update_use_; }
  const DeviceMesh& mesh() const { return mesh_; }

 private:
  /// From what counts in the global batch; writes to no sinks.
  StepContext step_context(const StepCounts& counts) const;
  std::string end_train_state(const StepMetrics& metrics, const std::vector<MicroBatch>& batch,
                              const Sinks& sinks);
  std::string first_non_finite(const Sinks& sinks, const std::vector<MicroBatch>& batch);
  /// A step whose loss or norm is not finite, the same on every rank: counts it where the file says
  /// that it is skipped, else throws NonFiniteError.
  void skip_or_throw(const StepSums& sums, const Sinks& sinks,
                     const std::vector<MicroBatch>& batch);

  /// The same for one whose norm leaps.
  void skip_spike(double norm);
  void count_skipped(const std::string& what);
  /// To the last good state, and from there on without the samples of this step.
  void go_back(double norm);
  void begin_loading();
  void begin(RankWork work, int64_t micro_batch = -1);
  void watch_stragglers(const StepSums& sums);
  void check_copies(int64_t step);
  std::vector<EvalMetrics> evaluate(int64_t step);

  Config config_;
  TrainerOptions options_;
  DeviceMesh mesh_;
  BatchPlan plan_;  // of the update at hand
  std::optional<UpdateSequence> updates_;
  std::unique_ptr<ParallelModel> model_;
  std::unique_ptr<PipelineRuntime> pipeline_;
  std::unique_ptr<Optimizer> optimizer_;
  UpdateUse update_use_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::shared_ptr<const Loader> batches_;
  std::unique_ptr<StepPrefetcher> loader_;
  SpikeWatch spikes_;
  int64_t good_step_ = -1;                    // of the state that the run went back to last
  int64_t times_there_ = 0;                   // it went back to that one
  std::optional<StragglerWatch> stragglers_;  // rank 0
  double own_seconds_ = 0;                    // of the step before, see StepSums::take_times
  double reading_seconds_ = 0;
  std::unique_ptr<TrainStateMonitor> train_state_;
  std::vector<Evaluation> evaluations_;
  RunState state_;
  int64_t last_step_ = 0;
  bool stop_ = false;
  bool writing_ = false;  // as of the last step
};

}  // namespace tessera
