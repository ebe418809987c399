#pragma once

// The folder in which a run keeps its checkpoints: iteration_00000100/ and so on, and a pointer to
// the newest. Every change of it is one rename, so that a crash leaves the old or the new state.

#include <sys/file.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/storage/generation.h"

namespace tessera {

/// The same place, named without dots and a slash at its end: its last part is its name.
std::filesystem::path plain_path(const std::filesystem::path& path);

/// "iteration_00000100"
std::string iteration_name(int64_t step);

/// "checkpoint-model-0000003-0000008.safetensors"
std::string rank_file_name(const std::optional<std::string>& prefix, const std::string& kind,
                           int rank, int world);

inline constexpr const char* kPointerName = "latest_checkpointed_iteration.txt";

/// Steps of the iteration folders in `root`, ascending.
std::vector<int64_t> list_iterations(const std::filesystem::path& root);

/// What the pointer says, or was about to say when a run was ended between giving a checkpoint its
/// name and pointing to it; nothing when it is missing or no number.
std::optional<int64_t> read_pointer(const std::filesystem::path& root);

/// Where the checkpoint of `step` is written before it gets its name: two starts of a run never
/// write into the same folder.
std::filesystem::path writing_folder(const std::filesystem::path& root, int64_t step,
                                     const Generation& generation = {});
/// Makes that folder, empty.
std::filesystem::path begin_iteration(const std::filesystem::path& root, int64_t step,
                                      const Generation& generation = {});
/// Gives it its name, in place of one of the same step, and points to it. All of it is on the disk
/// when this returns. Throws CheckpointError when a newer start of the run has taken over, which is
/// looked for in front of every rename.
void publish_iteration(const std::filesystem::path& root, int64_t step,
                       const Generation& generation = {});
void remove_iteration(const std::filesystem::path& root, int64_t step);

/// Removes what runs that were killed left half written or half removed, and gives a whole one that
/// was moved aside for a successor that never got the name its name again. Returns the names of
/// what is gone.
std::vector<std::string> remove_leftovers(const std::filesystem::path& root);

/// Writes a small file whole and flushes it. Throws CheckpointError.
void write_file_durably(const std::filesystem::path& path, const std::string& text);
void flush_folder(const std::filesystem::path& folder);

/// Keeps other runs from saving into the same folder while it lives; a run that is killed loses it.
class FolderLock {
 public:
  /// Creates `root`. Waits up to `patience` for another one to give it up, then throws
  /// CheckpointError that says who holds it. On a file system without locks it warns and holds
  /// nothing. `lock` is flock() or stands for it.
  explicit FolderLock(const std::filesystem::path& root, int (*lock)(int, int) = ::flock,
                      std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  ~FolderLock();
  /// Who holds it, one line.
  const std::string& holder() const { return holder_; }
  /// Whether the lock that is seen here, maybe on another host, is that of `holder`.
  static bool is_held_by(const std::filesystem::path& root, const std::string& holder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path path_;
  std::string holder_;
  int descriptor_ = -1;
};

}  // namespace tessera
