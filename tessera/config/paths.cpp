#include "tessera/config/paths.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tessera {

namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string full_path(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error ? path.string() : full.lexically_normal().string();
}

template <typename Exists>
std::string resolve(const std::string& directory, const std::string& path, Exists exists_at) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  const fs::path beside = fs::path(directory) / path;
  return full_path(exists_at(beside) ? beside : fs::path(path));
}

}  // namespace

std::string resolve_path(const std::string& directory, const std::string& path) {
  return resolve(directory, path, is_there);
}

std::string resolve_prefix(const std::string& directory, const std::string& prefix) {
  return resolve(directory, prefix, [](const fs::path& beside) {
    // A file of that name is refused later; the message then names the one beside the file.
    std::error_code error;
    return is_there(beside.string() + ".idx") || is_there(beside.string() + ".bin") ||
           fs::is_regular_file(beside, error);
  });
}

bool is_hf_folder(const std::string& directory) {
  return is_there(fs::path(directory) / "config.json") &&
         !is_there(fs::path(directory) / "manifest.json");
}

std::string checkpoint_with_config(const std::string& directory) {
  fs::path folder = directory;
  std::ifstream pointer(folder / "latest_checkpointed_iteration.txt");
  if (int64_t step = 0; pointer >> step) {
    char name[40];
    std::snprintf(name, sizeof(name), "iteration_%08ld", static_cast<long>(step));
    folder /= name;
  }
  return is_there(folder / "manifest.json") && is_there(folder / "config.json") ? folder.string()
                                                                                : "";
}

std::string save_directory(const Config& config) {
  if (!config.checkpoint.save_path.empty()) return config.checkpoint.save_path;
  return (fs::path(config.output_dir) / "checkpoint").string();
}

}  // namespace tessera
