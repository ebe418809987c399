#pragma once

// Which checkpoints of a run stay.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tessera/storage/manifest.h"

namespace tessera {

/// Steps of the checkpoints of the run whose newest one is `newest`, and of the runs that it
/// resumed, oldest first; also those that the run had to remove and may not have removed.
std::vector<int64_t> checkpoints_of_run(const Manifest& newest);

/// Removes these checkpoints. One that cannot be removed is a warning.
void remove_iterations(const std::filesystem::path& root, const std::vector<int64_t>& steps);

/// What a run does at its start: finishes or undoes what one that was ended left in the middle,
/// says what is gone, and removes the oldest of `kept` until `keep` are there. Returns those that
/// are there.
std::vector<int64_t> tidy_for_run(const std::filesystem::path& root, int64_t keep,
                                  std::vector<int64_t> kept);

}  // namespace tessera
