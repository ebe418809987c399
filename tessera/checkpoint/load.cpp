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
#include "tessera/checkpoint/iteration_folder.h"
#include "tessera/checkpoint/name_lists.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/comm/gather_text.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Names of MindFormers' own in a .safetensors file of `folder`.
bool has_foreign_names(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".safetensors") continue;
    try {
      const SafetensorsFile file(at->path());
      for (const auto& [name, entry] : file.entries()) {
        if (name.find("decoder.layers.") != std::string::npos ||
            name.starts_with("embedding.word_embeddings.")) {
          return true;
        }
      }
    } catch (const CheckpointError&) {
      // Damaged: whose it is does not show.
    }
  }
  return false;
}

bool is_iteration(const fs::path& path) {
  return path.filename().string().starts_with("iteration_");
}

void refuse_foreign(const fs::path& folder) {
  if (!has_foreign_names(folder)) return;
  throw CheckpointError(folder.string() +
                        ": a checkpoint of MindFormers (names such as decoder.layers.0...), whose "
                        "tensors are fused in its own way; convert it to Hugging Face names and "
                        "give that folder as checkpoint.load_path");
}

// Reads every row of this rank, or those that it alone reads.
class BoxReader {
 public:
  BoxReader(CheckpointReader& reader, bool primary_only)
      : reader_(reader), primary_only_(primary_only) {}

  void read_weight(const ShardedParam& param) {
    if (skips(param)) return;
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
      if (codes->dtype != at::kByte) {
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
  bool primary_only_;
  std::vector<std::string> missing_;
};

void read_all(CheckpointReader& reader, const LoadOptions& options, ParamTable& table,
              const OptimizerState& optimizer) {
  BoxReader boxes(reader, options.balanced);
  const auto& params = table.params();
  for (const auto& param : params) boxes.read_weight(*param);
  if (options.optimizer.empty()) return boxes.finish();
  const auto& stored = reader.manifest().state;
  const bool has_codes = std::ranges::any_of(
      stored, [](const auto& entry) { return entry.second.dtype == at::kByte; });
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
std::vector<fs::path> chosen_by_first(const std::string& path, const ProcessGroup& world) {
  std::string lines;
  agree(world, [&] {
    if (world.rank() != 0) return;
    const CheckpointChoice choice = checkpoints_at(path);
    if (!choice.note.empty()) log_warning(choice.note);
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
  const std::string report = compare_with_model(manifest, model);
  if (!report.empty()) {
    throw CheckpointError(folder.string() + ": the checkpoint does not fit the model:" + report);
  }
  if (options.optimizer.empty() || manifest.optimizer == options.optimizer) return;
  if (manifest.optimizer.empty() && !options.has_state) return;
  throw CheckpointError(folder.string() + ": holds " +
                        (manifest.optimizer.empty() ? "no state of an optimizer"
                                                    : "the state of " + manifest.optimizer) +
                        ", the run needs that of " + options.optimizer +
                        "; checkpoint.no_load_optim: true starts from its weights");
}

}  // namespace

CheckpointChoice checkpoints_at(const fs::path& given) {
  const fs::path path = plain_path(given);
  if (fs::exists(path / kManifestName)) return {{path}, ""};
  refuse_foreign(path);
  if (is_iteration(path)) {
    throw CheckpointError((path / kManifestName).string() +
                          ": not there: this checkpoint is not complete");
  }
  CheckpointChoice choice;
  std::vector<int64_t> steps = list_iterations(path);
  std::ranges::reverse(steps);
  const auto pointed = read_pointer(path);
  if (const auto at = std::ranges::find(steps, pointed.value_or(-1)); at != steps.end()) {
    std::rotate(steps.begin(), at, at + 1);
  } else if (!steps.empty()) {
    choice.note = (path / kPointerName).string() +
                  (pointed ? ": names step " + std::to_string(*pointed) + ", which is not there"
                           : ": missing or no number") +
                  "; the newest complete checkpoint is taken";
  }
  if (steps.empty()) {
    throw CheckpointError(
        path.string() + (is_hf_folder(path) ? ": is a Hugging Face folder already"
                                            : ": holds no checkpoint and no Hugging Face weights"));
  }
  for (const int64_t step : steps) choice.folders.push_back(path / iteration_name(step));
  if (!fs::exists(choice.folders.front() / kManifestName)) refuse_foreign(choice.folders.front());
  return choice;
}

std::string compare_with_model(const Manifest& manifest, const std::vector<ParamSpec>& model) {
  std::vector<std::string> missing, surplus, misshapen;
  std::set<std::string> known;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    known.insert(spec.name);
    const auto stored = manifest.weights.find(spec.name);
    if (stored == manifest.weights.end()) {
      missing.push_back(spec.name);
    } else if (stored->second.shape != spec.shape) {
      misshapen.push_back(spec.name + " is " + shape_text(stored->second.shape) +
                          ", the model has " + shape_text(spec.shape));
    }
  }
  for (const auto& [name, tensor] : manifest.weights) {
    if (!known.contains(name)) surplus.push_back(name);
  }
  std::string report;
  list_names(report, "missing", missing);
  list_names(report, "not in the model", surplus);
  list_names(report, "of another shape", misshapen);
  return report;
}

LoadedCheckpoint load_checkpoint(const LoadOptions& options, const std::vector<ParamSpec>& model,
                                 ParamTable& table, const OptimizerState& optimizer,
                                 const DeviceMesh& mesh) {
  const ProcessGroup& world = mesh[Axis::kWorld];
  const std::vector<fs::path> folders = chosen_by_first(options.path, world);
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
    if (folder != folders.back() && mesh.rank() == 0) {
      log_warning(error + "\n  " + folder.filename().string() +
                  " is passed over; the next complete checkpoint is tried");
    }
  }
  throw CheckpointError(folders.size() == 1 ? found : "no checkpoint is sound:\n  " + found);
}

}  // namespace tessera
