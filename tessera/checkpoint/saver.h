#pragma once

// Saving while a run goes on: every so many steps, behind it or in line, never losing the last one.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/checkpoint/rank_files.h"
#include "tessera/checkpoint/stored_rows.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/manifest.h"

namespace tessera {

struct SaverOptions {
  std::filesystem::path root;
  std::optional<std::string> prefix;
  int64_t keep = 5;       // checkpoints; the oldest of `kept` are removed
  bool async = false;     // the values are copied, writing goes on behind
  bool copies = true;     // every rank also writes what it holds a replica of
  std::string base;       // fingerprint of the base: adapters alone are saved; empty: everything
  std::string optimizer;  // its type; empty: its state is left out
  std::string moment_dtype = "float32";
  std::string config;     // resolved YAML
  std::string hf_config;  // config.json of the model
  std::string tokenizer;  // folder of the tokenizer that goes with the model
  /// Its files, names and bytes: they lie beside the model's config.json in every checkpoint. Rank
  /// 0's count.
  std::vector<std::pair<std::string, std::string>> tokenizer_files;
  Generation generation;  // of this run, which start it is
  /// How long it waits for an older start of the same run that still holds the folder.
  std::chrono::milliseconds patience{0};
  std::vector<int64_t> kept;  // what this run resumed from in `root`, and what that one kept
};

/// Every method is collective over the world of `mesh` and throws CheckpointError on all ranks
/// alike.
class CheckpointSaver {
 public:
  /// Locks `root` against other runs, removes what killed ones left, refuses a `root` that is not
  /// the same folder for all ranks. The table must outlive it.
  CheckpointSaver(SaverOptions options, const ParamTable& table, OptimizerState optimizer,
                  const DeviceMesh& mesh);
  /// A checkpoint that is not complete by now is thrown away.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Saves the run as it is. Replicas that differ are refused by name. Asynchronous: returns when
  /// the values are copied; waits for the save before.
  void save(const RunPosition& position);

  /// Whether a checkpoint is not complete yet (the same on every rank), and whether this rank
  /// still writes on it. When none does, complete() takes no time.
  bool pending() const { return writing_.valid(); }
  bool writing() const;
  /// Waits for the files and gives the checkpoint its name.
  void complete();
  /// The newest one that is complete, the same on every rank; none yet: nothing.
  std::optional<std::filesystem::path> newest() const { return newest_; }

 private:
  std::string write(const RankFiles& files) const;
  void publish(const std::vector<std::string>& fragments);

  SaverOptions options_;
  const ParamTable& table_;
  OptimizerState optimizer_;
  const DeviceMesh& mesh_;
  std::unique_ptr<FolderLock> lock_;  // rank 0
  RunPosition position_;              // of the checkpoint that is being written
  std::filesystem::path folder_;
  std::optional<std::filesystem::path> newest_;
  std::chrono::steady_clock::time_point started_;
  std::future<std::string> writing_;  // the fragment of this rank
  std::future<void> removing_;        // rank 0: what save_max leaves no room for, behind the run
};

}  // namespace tessera
