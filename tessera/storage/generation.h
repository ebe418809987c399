#pragma once

// Which start of a run this is. A launcher that starts a run again counts; what an older start has
// left running shall change nothing on the disk any more.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

struct Generation {
  std::string job;     // the same for all starts of one run
  int64_t number = 0;  // from 1; 0: nobody counts

  bool counted() const { return number > 0; }
  /// Whether this run has been started before.
  bool is_restart() const { return number > 1; }
  bool operator==(const Generation&) const = default;
};

/// The start that saves into `root` now; none when nobody counts there.
std::optional<Generation> read_generation(const std::filesystem::path& root);

/// Where an older start of the same run saves into `root`: from now on it gives no names there,
/// also while it still holds the lock. True then. Throws CheckpointError when a newer start does.
bool take_over(const std::filesystem::path& root, const Generation& generation);

/// For who holds the lock: from now on only `generation` gives names in `root`. One that nobody
/// counts removes what was there.
void write_generation(const std::filesystem::path& root, const Generation& generation);

/// Throws CheckpointError when `root` belongs to another start than `generation`. One that nobody
/// counts is not checked.
void check_generation(const std::filesystem::path& root, const Generation& generation);

}  // namespace tessera
