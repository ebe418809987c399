#include <filesystem>

#include "tessera/config/blend.h"
#include "tessera/config/checker.h"
#include "tessera/config/validate.h"

namespace tessera {
namespace {

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::vector<Issue> check_files(const Config& config, const Provenance& provenance) {
  std::vector<Issue> issues;
  Checker check(config, provenance, issues);
  const DatasetConfig& data = config.train_dataset.dataloader.config;
  for (const auto& [path, list] :
       {std::pair{"train_dataset.dataloader.config.data_path", &data.data_path},
        std::pair{"train_dataset.dataloader.config.train_data_path", &data.train_data_path}}) {
    if (!*list) continue;
    std::string problem;
    for (const std::string& prefix : parse_blend(**list, problem).prefixes) {
      for (const char* suffix : {".idx", ".bin"}) {
        if (!is_file(prefix + suffix)) {
          check.error(path, "no such file: " + prefix + suffix);
          break;
        }
      }
    }
  }
  return issues;
}

}  // namespace tessera
