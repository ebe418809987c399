#include "tessera/storage/retention.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/storage/iteration_folder.h"

namespace tessera {

std::vector<int64_t> checkpoints_of_run(const Manifest& newest) {
  std::vector<int64_t> steps = newest.superseded;
  steps.insert(steps.end(), newest.kept.begin(), newest.kept.end());
  return steps;
}

void remove_iterations(const std::filesystem::path& root, const std::vector<int64_t>& steps) {
  for (const int64_t step : steps) {
    try {
      remove_iteration(root, step);
    } catch (const CheckpointError& error) {
      log_warning(error.what());  // the new one is complete all the same
    }
  }
}

std::vector<int64_t> tidy_for_run(const std::filesystem::path& root, int64_t keep,
                                  std::vector<int64_t> kept) {
  for (const std::string& name : remove_leftovers(root)) {
    log_warning((root / name).string() + ": left by a run that was ended; removed");
  }
  const std::vector<int64_t> there = list_iterations(root);
  std::erase_if(kept, [&](int64_t step) { return std::ranges::find(there, step) == there.end(); });
  const auto surplus = std::max<int64_t>(0, static_cast<int64_t>(kept.size()) - keep);
  remove_iterations(root, {kept.begin(), kept.begin() + surplus});
  kept.erase(kept.begin(), kept.begin() + surplus);
  return kept;
}

}  // namespace tessera
