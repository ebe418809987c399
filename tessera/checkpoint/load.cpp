#include "tessera/checkpoint/load.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/agree.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/coded_rows.h"
#include "tessera/checkpoint/hf_load.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/comm/gather_text.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/name_lists.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// A checkpoint that holds adapters alone goes with a base that was read before.
WeightRows rows_of(const Manifest& manifest, const LoadOptions& options) {
  return manifest.base.empty() ? options.rows : WeightRows::kAdapters;
}

// Reads every row of this rank, or those that it alone reads.
class BoxReader {
 public:
  BoxReader(CheckpointReader& reader, WeightRows rows, bool primary_only)
      : reader_(reader), rows_(rows), primary_only_(primary_only) {}

  void read_weight(const ShardedParam& param) {
    if (skips(param) || !is_wanted(param.role)) return;
    read(reader_.manifest().weights, stored_rows(param.name, param, param.value));
  }

  /// As it is stored, or widened from codes or between float types; not into codes.
  void read_state(const ShardedParam& param, const StateTensor& tensor) {
    if (skips(param)) return;
    const auto& stored = reader_.manifest().state;
    const std::vector<StoredRow> rows =
        stored_rows(state_name(tensor.slot, param.name), param, tensor.value);
    if (tensor.scales.defined()) {
      read(stored, rows);
      read(stored, scale_rows(param, tensor, /*own=*/false));
      return;
    }
    for (const StoredRow& row : rows) {
      const StoredTensor* codes = find(stored, row);
      if (codes == nullptr) continue;
      if (codes->dtype != ElementType::kU8) {
        reader_.read_box(*codes, row.box, row.value);
        continue;
      }
      const auto scales =
          stored.find(scale_slot(tensor.slot) + row.name.substr(tensor.slot.size()));
      if (scales == stored.end()) {
        missing_.push_back("scales of " + row.name);
      } else {
        read_coded_box(reader_, *codes, scales->second, row, tensor.is_signed);
      }
    }
  }

  void finish() const {
    std::string report;
    list_names(report, "missing", missing_);
    if (!report.empty()) throw CheckpointError(reader_.folder().string() + ":" + report);
  }

 private:
  bool skips(const ShardedParam& param) const { return primary_only_ && !param.primary; }
  bool is_wanted(ParamRole role) const {
    return rows_ == WeightRows::kAll || is_adapter(role) == (rows_ == WeightRows::kAdapters);
  }

  // nullptr: it is not there as it should be, which is remembered.
  const StoredTensor* find(const std::map<std::string, StoredTensor>& stored,
                           const StoredRow& row) {
    const auto tensor = stored.find(row.name);
    if (tensor != stored.end() && tensor->second.shape == row.shape) return &tensor->second;
    missing_.push_back(tensor == stored.end() ? row.name
                                              : row.name + " of shape " + shape_text(row.shape));
    return nullptr;
  }

  void read(const std::map<std::string, StoredTensor>& stored, const std::vector<StoredRow>& rows) {
    for (const StoredRow& row : rows) {
      if (const StoredTensor* tensor = find(stored, row)) {
        reader_.read_box(*tensor, row.box, row.value);
      }
    }
  }

  CheckpointReader& reader_;
  WeightRows rows_;
  bool primary_only_;
  std::vector<std::string> missing_;
};

void read_all(CheckpointReader& reader, const LoadOptions& options, ParamTable& table,
              const OptimizerState& optimizer) {
  BoxReader boxes(reader, rows_of(reader.manifest(), options), options.balanced);
  const auto& params = table.params();
  for (const auto& param : params) boxes.read_weight(*param);
  if (options.optimizer.empty()) return boxes.finish();
  const auto& stored = reader.manifest().state;
  const bool has_codes = std::ranges::any_of(
      stored, [](const auto& entry) { return entry.second.dtype == ElementType::kU8; });
  bool needs_codes = false;
  for (size_t i = 0; i < params.size(); ++i) {
    for (const StateTensor& tensor : optimizer.tensors(i)) {
      if (tensor.scales.defined() && !has_codes) {
        needs_codes = true;
      } else {
        boxes.read_state(*params[i], tensor);
      }
    }
  }
  // The same on every rank of a stage, which encodes together.
  if (needs_codes) {
    optimizer.encode([&](size_t i, const std::string& slot, const at::Tensor& values) {
      boxes.read_state(*params[i], {slot, values, {}, true});
    });
  }
  boxes.finish();
}

// From the rank that read a box to those that hold copies of it, one message a group of ranks.
void send_copies(const LoadOptions& options, ParamTable& table, const OptimizerState& optimizer,
                 const DeviceMesh& mesh) {
  std::map<std::pair<Axis, int>, std::vector<at::Tensor>> sent;
  const auto& params = table.params();
  for (size_t i = 0; i < params.size(); ++i) {
    for (const ReplicaAxis& replicas : replica_axes(*params[i])) {
      std::vector<at::Tensor>& tensors = sent[{replicas.axis, replicas.copies}];
      if (params[i]->value.numel() == 0) continue;
      tensors.push_back(params[i]->value);
      if (options.optimizer.empty()) continue;
      for (const StateTensor& tensor : optimizer.tensors(i)) {
        tensors.push_back(tensor.value);
        if (tensor.scales.defined()) tensors.push_back(tensor.scales);
      }
    }
  }
  for (auto& [key, tensors] : sent) {
    const ProcessGroup group = replica_group({key.first, key.second}, mesh);
    if (group.size() > 1 && !tensors.empty()) group.broadcast(std::move(tensors), 0).wait();
  }
}

// Rank 0 looks; the others try what it found, in its order.
std::vector<fs::path> chosen_by_first(const LoadOptions& options, const ProcessGroup& world) {
  std::string lines;
  agree(world, [&] {
    if (world.rank() != 0) return;
    CheckpointChoice choice = checkpoints_at(options.path);
    if (!choice.note.empty()) log_warning(choice.note);
    if (!options.job.empty()) choice.folders = saved_by_job(choice.folders, options.job);
    for (const fs::path& folder : choice.folders) lines += folder.string() + "\n";
  });
  std::vector<fs::path> folders;
  std::istringstream in(broadcast_text(0, world, lines));
  for (std::string line; std::getline(in, line);) folders.emplace_back(line);
  return folders;
}

// What stands against this checkpoint whatever its bytes are.
void check_fits(const Manifest& manifest, const fs::path& folder, const LoadOptions& options,
                const std::vector<ParamSpec>& model) {
  if (!manifest.base.empty() && manifest.base != options.base) {
    throw CheckpointError(
        folder.string() +
        (options.base.empty()
             ? ": holds adapters alone; checkpoint.base_load_path names the model that they adapt"
             : ": holds the adapters of another model than the one at checkpoint.base_load_path: "
               "its weights were " +
                   manifest.base + ", these are " + options.base));
  }
  const std::string report =
      compare_with_model(manifest, select_rows(model, rows_of(manifest, options)));
  if (!report.empty()) {
    throw CheckpointError(folder.string() + ": the checkpoint does not fit the model:" + report);
  }
  if (options.optimizer.empty()) return;
  const std::string problem = optimizer_problem(manifest, options.optimizer, options.has_state);
  if (!problem.empty()) throw CheckpointError(folder.string() + ": " + problem);
}

}  // namespace

LoadedCheckpoint load_checkpoint(const LoadOptions& options, const std::vector<ParamSpec>& model,
                                 ParamTable& table, const OptimizerState& optimizer,
                                 const DeviceMesh& mesh) {
  const ProcessGroup& world = mesh[Axis::kWorld];
  const std::vector<fs::path> folders = chosen_by_first(options, world);
  std::string found;
  for (const fs::path& folder : folders) {
    std::unique_ptr<CheckpointReader> reader;
    const std::string damage = first_error(world, [&] {
      reader = std::make_unique<CheckpointReader>(folder);
      if (mesh.rank() != 0) return;
      for (const std::string& missing : reader->check_files()) {
        log_warning(missing + "; it held copies only, which no load needs");
      }
    });
    std::string error = damage;
    if (error.empty()) {
      agree(world, [&] { check_fits(reader->manifest(), folder, options, model); });
      error = first_error(world, [&] { read_all(*reader, options, table, optimizer); });
    }
    if (error.empty()) {
      if (options.balanced) send_copies(options, table, optimizer, mesh);
      Manifest manifest = reader->manifest();
      manifest.files.clear();
      manifest.weights.clear();
      manifest.state.clear();
      return {folder, std::move(manifest)};
    }
    found += (found.empty() ? "" : "\n  ") + error;
    agree(world, [&] {
      if (mesh.rank() == 0 && options.marks_damaged) mark_damaged(folder, error);
    });
    if (folder != folders.back() && mesh.rank() == 0) {
      log_warning(error + "\n  " + folder.filename().string() +
                  " is passed over; the next complete checkpoint is tried");
    }
  }
  throw CheckpointError(folders.size() == 1 ? found : "no checkpoint is sound:\n  " + found);
}

}  // namespace tessera
