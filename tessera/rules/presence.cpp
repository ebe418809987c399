#include "tessera/rules/presence.h"

#include <filesystem>

#include "tessera/config/blend.h"
#include "tessera/config/cpu_features.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::vector<Issue> check_presence(const Config& config, const Provenance& provenance) {
  std::vector<Issue> issues;
  Checker check(config, provenance, issues);
  const std::string& device = config.context.device_target;
  if ((device == "GPU" || device == "CUDA") && !has_cuda_driver()) {
    check.error("context.device_target", "this machine has no CUDA device", "CPU");
  }
  const DatasetConfig& data = config.train_dataset.dataloader.config;
  for (const auto& [path, list] :
       {std::pair{"train_dataset.dataloader.config.data_path", &data.data_path},
        std::pair{"train_dataset.dataloader.config.train_data_path", &data.train_data_path}}) {
    if (!*list) continue;
    std::string problem;
    for (const std::string& prefix : parse_blend(**list, problem).prefixes) {
      for (const char* suffix : {".idx", ".bin"}) {
        if (!is_file(prefix + suffix)) {
          check.error(path, "no such file: " + prefix + suffix +
                                "; `tessera preprocess` makes token files from text");
          break;
        }
      }
    }
  }
  return issues;
}

}  // namespace tessera
