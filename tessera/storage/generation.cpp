#include "tessera/storage/generation.h"

#include <fstream>

#include "tessera/base/error.h"
#include "tessera/storage/iteration_folder.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kName = ".generation";

std::string text_of(const Generation& generation) {
  return "start " + std::to_string(generation.number) + " of run " + generation.job;
}

}  // namespace

std::optional<Generation> read_generation(const fs::path& root) {
  Generation generation;
  std::ifstream in(root / kName);
  if (!(in >> generation.number >> generation.job)) return std::nullopt;
  return generation;
}

bool take_over(const fs::path& root, const Generation& generation) {
  const std::optional<Generation> owner = read_generation(root);
  if (!generation.counted() || !owner || owner->job != generation.job) return false;
  if (owner->number > generation.number) check_generation(root, generation);
  write_generation(root, generation);
  return true;
}

void write_generation(const fs::path& root, const Generation& generation) {
  std::error_code error;
  if (!generation.counted()) {
    fs::remove(root / kName, error);
    return;
  }
  const fs::path next = root / (std::string(kName) + "." + std::to_string(generation.number));
  write_file_durably(next, std::to_string(generation.number) + " " + generation.job + "\n");
  fs::rename(next, root / kName, error);
  if (error) throw CheckpointError(next.string() + ": cannot be renamed: " + error.message());
  flush_folder(root);
}

void check_generation(const fs::path& root, const Generation& generation) {
  if (!generation.counted()) return;
  const std::optional<Generation> owner = read_generation(root);
  if (owner == generation) return;
  throw CheckpointError(root.string() + ": belongs to " +
                        (owner ? text_of(*owner) : std::string("another run")) + " now; " +
                        text_of(generation) + " saves nothing there any more");
}

}  // namespace tessera
