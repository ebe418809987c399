#include "tessera/storage/tokenizer_files.h"

#include <fstream>
#include <sstream>

#include "tessera/base/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNames[] = {
    "tokenizer.json",      "tokenizer.model",    "tokenizer_config.json",
    "vocab.json",          "merges.txt",         "added_tokens.json",
    "chat_template.jinja", "chat_template.json", "special_tokens_map.json",
};
constexpr const char* kGeneration = "generation_config.json";

}  // namespace

bool has_tokenizer(const fs::path& folder) {
  for (const char* name : kNames) {
    if (fs::exists(folder / name)) return true;
  }
  return false;
}

std::vector<std::pair<std::string, std::string>> read_tokenizer_files(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  if (folder.empty()) return files;
  const auto read = [&](const char* name) {
    std::error_code error;
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path, error)) return;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    if (!file || !bytes) throw CheckpointError(path.string() + ": cannot be read");
    files.emplace_back(name, std::move(bytes).str());
  };
  for (const char* name : kNames) read(name);
  if (!files.empty()) read(kGeneration);
  return files;
}

std::vector<std::string> copy_tokenizer_files(const fs::path& from, const fs::path& to) {
  std::vector<std::string> names;
  if (from.empty()) return names;
  const auto copy = [&](const char* name) {
    std::error_code error;
    if (!fs::is_regular_file(from / name, error)) return;
    fs::copy_file(from / name, to / name, error);
    if (error) throw CheckpointError((from / name).string() + ": " + error.message());
    names.emplace_back(name);
  };
  for (const char* name : kNames) copy(name);
  if (!names.empty()) copy(kGeneration);
  return names;
}

}  // namespace tessera
