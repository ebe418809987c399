#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tessera::test {

inline std::ifstream open_for_reading(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return file;
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file = open_for_reading(path);
  return nlohmann::json::parse(file);
}

/// One object per line, as in metrics.jsonl. Empty lines are skipped.
inline std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path) {
  std::ifstream file = open_for_reading(path);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) objects.push_back(nlohmann::json::parse(line));
  }
  return objects;
}

}  // namespace tessera::test
