#pragma once

// Where a run starts from and what it leaves on disk.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/saver.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/data/update_sequence.h"
#include "tessera/optim/optimizer.h"
#include "tessera/parallel/parallel_model.h"
#include "tessera/storage/starting_point.h"

namespace tessera {

/// Where a run is between two updates.
struct RunState {
  UpdateSpan next;             // the update that follows
  int64_t last_batch = 0;      // of the update before
  int64_t skipped_in_row = 0;  // steps that were not finite, up to now
  int64_t skipped = 0;
  std::vector<SampleRange> skipped_ranges;  // of the steps that were skipped
  std::vector<SampleRange> left_out;        // read by steps that the run went back behind
  std::vector<double> norms;                // of the last steps, where spikes are watched
};

/// Every method is collective over the world. `available_samples` are those in the order of the
/// data, by which a change of the data is noticed. `families`: those that files are read with.
/// `generation`: which start of the run this is.
class RunCheckpoints {
 public:
  RunCheckpoints(const Config& config, const UpdateSequence& updates, int64_t available_samples,
                 ParallelModel& model, Optimizer& optimizer, const DeviceMesh& mesh,
                 FamilyTable families, Generation generation);

  /// Fills the weights (from the generator, a Hugging Face folder or a checkpoint) and the state
  /// of the optimizer. Returns where the run goes on. Throws CheckpointError.
  RunState start();

  /// After an update. `all_idle`: no rank still writes, the same answer on every rank.
  void after_step(const RunState& state, bool all_idle);
  /// At the end of a run: nothing trained is lost.
  void finish(const RunState& state);
  /// Waits for a checkpoint that is still being written.
  void complete();

  /// Whether a whole checkpoint is there to go back to: of this process, or the one that it
  /// resumed.
  bool can_go_back() const { return good().has_value(); }
  /// Loads the newest of them, after the one that is still being written.
  RunState go_back();

  bool writing() const { return saver_ && saver_->writing(); }

 private:
  RunPosition position(const RunState& state) const;
  std::string tokenizer_of_data() const;
  std::optional<std::filesystem::path> good() const;
  StartingPoint same_start() const;  // the same on every rank
  RunState resume(const StartingPoint& start, bool with_optimizer);
  RunState go_on(const RunPosition& before, const std::string& from) const;
  void save(const RunState& state);
  OptimizerState optimizer_state() const;

  const Config& config_;
  UpdateSequence updates_;
  int64_t available_samples_;
  ParallelModel& model_;
  Optimizer& optimizer_;
  const DeviceMesh& mesh_;
  FamilyTable families_;
  Generation generation_;
  std::string tokenizer_;         // folder
  std::string base_fingerprint_;  // of checkpoint.base_load_path, where it is asked for
  std::vector<int64_t> kept_;     // checkpoints in the folder that this run goes on with
  std::unique_ptr<CheckpointSaver> saver_;
  int64_t saved_step_ = 0;
  std::optional<std::filesystem::path> resumed_;  // the checkpoint that was resumed as a whole
};

}  // namespace tessera
