#pragma once

// Which checkpoint of a folder is taken, and whether it is one of the model's.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/model_spec.h"
#include "tessera/storage/manifest.h"

namespace tessera {

/// Folders to try, best first, and what is odd about them (or empty).
struct CheckpointChoice {
  std::vector<std::filesystem::path> folders;
  std::string note;
};

/// Marks a checkpoint that a load found damaged: no start of a run takes it again. Saving its step
/// anew replaces it with its mark.
void mark_damaged(const std::filesystem::path& folder, const std::string& why);
bool is_marked_damaged(const std::filesystem::path& folder);

/// Those of `folders` that the run `job` itself has saved, in their order.
std::vector<std::filesystem::path> saved_by_job(const std::vector<std::filesystem::path>& folders,
                                                const std::string& job);

/// The one that `path` is; of a folder of several what the pointer names, then from the newest
/// down, without those that are marked as damaged. Throws CheckpointError when there is none,
/// naming what is there.
CheckpointChoice checkpoints_at(const std::filesystem::path& path);

/// Everything in which a checkpoint does not fit `model`, as one text; empty: it fits.
std::string compare_with_model(const Manifest& manifest, const std::vector<ParamSpec>& model);

/// Whether the optimizer keeps a tensor of any parameter between its updates.
bool keeps_state(const Config& config);

/// Why an optimizer of type `optimizer` cannot go on from a checkpoint; empty: it can. `has_state`:
/// it keeps something.
std::string optimizer_problem(const Manifest& manifest, const std::string& optimizer,
                              bool has_state);

/// Whether all that a load needs has its size; the files are not read. Files of copies may be
/// missing, no load needs them: one line each is returned. Throws CheckpointError that names the
/// file.
std::vector<std::string> check_sizes(const Manifest& manifest, const std::filesystem::path& folder);

}  // namespace tessera
