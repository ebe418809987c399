#pragma once

// Where a run starts from and what it leaves on disk.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tessera/checkpoint/saver.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/optim/optimizer.h"
#include "tessera/parallel/parallel_model.h"
#include "tessera/storage/starting_point.h"

namespace tessera {

/// Every method is collective over the world. `available_samples` are those in the order of the
/// data, by which a change of the data is noticed. `families`: those that files are read with.
class RunCheckpoints {
 public:
  RunCheckpoints(const Config& config, const BatchPlan& plan, int64_t available_samples,
                 ParallelModel& model, Optimizer& optimizer, const DeviceMesh& mesh,
                 FamilyTable families);

  /// Fills the weights (from the generator, a Hugging Face folder or a checkpoint) and the state
  /// of the optimizer. Returns the updates that are done. Throws CheckpointError.
  int64_t start();

  /// After update `step`. `all_idle`: no rank still writes, the same answer on every rank.
  void after_step(int64_t step, bool all_idle);
  /// At the end of a run: nothing trained is lost.
  void finish(int64_t step);
  /// Waits for a checkpoint that is still being written.
  void complete();

  /// Samples trained on after update `step`, those that were read twice counted twice.
  int64_t samples_at(int64_t step) const;

  bool writing() const { return saver_ && saver_->writing(); }

 private:
  RunPosition position(int64_t step) const;
  StartingPoint same_start() const;  // the same on every rank
  int64_t resume(const std::string& path, bool with_optimizer);
  void save(int64_t step);
  OptimizerState optimizer_state() const;

  const Config& config_;
  BatchPlan plan_;
  int64_t available_samples_;
  ParallelModel& model_;
  Optimizer& optimizer_;
  const DeviceMesh& mesh_;
  FamilyTable families_;
  std::string tokenizer_;      // folder
  std::vector<int64_t> kept_;  // checkpoints in the folder that this run goes on with
  std::unique_ptr<CheckpointSaver> saver_;
  int64_t saved_step_ = 0;
  int64_t start_step_ = 0;     // where this run went on,
  int64_t start_samples_ = 0;  // and what had been trained on by then
};

}  // namespace tessera
