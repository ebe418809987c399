#include "tessera/storage/starting_point.h"

#include "tessera/config/paths.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/manifest.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

bool holds_complete_one(const fs::path& root) {
  for (const int64_t step : list_iterations(root)) {
    std::error_code error;
    const fs::path folder = root / iteration_name(step);
    if (fs::exists(folder / kManifestName, error) && !is_marked_damaged(folder)) return true;
  }
  return false;
}

bool holds_one_of(const fs::path& root, const std::string& job) {
  std::vector<fs::path> folders;
  for (const int64_t step : list_iterations(root)) folders.push_back(root / iteration_name(step));
  return !saved_by_job(folders, job).empty();
}

fs::path whole(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::weakly_canonical(path, error);
  return plain_path(error ? path : full);
}

}  // namespace

StartingPoint starting_point(const Config& config, const Generation& generation) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  const fs::path own = save_directory(config);
  if (checkpoint.resume != "auto") {
    const bool again = generation.is_restart() && checkpoint.enable_save;
    if (again && holds_one_of(own, generation.job)) return {own, true, generation.job};
    return {checkpoint.load_path, false, ""};
  }
  if (holds_complete_one(own)) return {own, true, ""};
  if (checkpoint.load_path.empty() || whole(own) == whole(checkpoint.load_path)) return {};
  return {checkpoint.load_path, false, ""};
}

}  // namespace tessera
