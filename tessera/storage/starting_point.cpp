#include "tessera/storage/starting_point.h"

#include "tessera/config/paths.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/manifest.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

bool holds_complete_one(const fs::path& root) {
  for (const int64_t step : list_iterations(root)) {
    std::error_code error;
    if (fs::exists(root / iteration_name(step) / kManifestName, error)) return true;
  }
  return false;
}

fs::path whole(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::weakly_canonical(path, error);
  return plain_path(error ? path : full);
}

}  // namespace

StartingPoint starting_point(const Config& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.resume != "auto") return {checkpoint.load_path, false};
  const fs::path own = save_directory(config);
  if (holds_complete_one(own)) return {own, true};
  if (checkpoint.load_path.empty() || whole(own) == whole(checkpoint.load_path)) return {};
  return {checkpoint.load_path, false};
}

}  // namespace tessera
