#include "tessera/rules/presence.h"

#include <filesystem>

#include "tessera/config/blend.h"
#include "tessera/config/cpu_features.h"
#include "tessera/layout/training_data.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Why `prefix`.idx and `prefix`.bin are no pair of files; empty: both are there.
std::string missing_at(const std::string& prefix) {
  for (const char* suffix : {".idx", ".bin"}) {
    if (is_file(prefix + suffix)) continue;
    for (const std::string_view ending : {".bin", ".idx"}) {
      const std::string shorter(prefix, 0, prefix.size() - std::min(ending.size(), prefix.size()));
      if (prefix.ends_with(ending) && (is_file(shorter + ".bin") || is_file(shorter + ".idx"))) {
        return "names the prefix of a .bin and an .idx file, without the ending: " + shorter;
      }
    }
    std::error_code error;
    if (std::filesystem::is_directory(prefix, error)) {
      return prefix + " is a folder; what is named is the prefix of a .bin and an .idx file";
    }
    if (is_file(prefix)) {
      return prefix + " is no token file; `tessera preprocess --input " + prefix +
             " --output PREFIX` makes PREFIX.bin and PREFIX.idx from text";
    }
    return "no such file: " + prefix + suffix +
           "; `tessera preprocess` makes token files from text";
  }
  return "";
}

void check_eval_files(const Config& config, size_t item, const Provenance& provenance,
                      std::vector<Issue>& issues) {
  const Config as_training = evaluated_as_training(config, config.eval_dataset[item]);
  const DatasetConfig& data = as_training.train_dataset.dataloader.config;
  for (const auto& list : {data.data_path, data.train_data_path}) {
    if (!list) continue;
    std::string problem;
    for (const std::string& prefix : parse_blend(*list, problem).prefixes) {
      const std::string missing = missing_at(prefix);
      if (missing.empty()) continue;
      Issue issue;
      issue.field =
          eval_path(config.eval_dataset, item, provenance) + ".dataloader.config." +
          (config.eval_dataset[item].dataloader.config.data_path ? "data_path" : "valid_data_path");
      const auto place = provenance.find(issue.field);
      issue.source = place != provenance.end() ? place->second : provenance.at("");
      issue.value = prefix;
      issue.rule = missing;
      issues.push_back(std::move(issue));
    }
  }
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
      if (const std::string missing = missing_at(prefix); !missing.empty()) {
        check.error(path, missing);
      }
    }
  }
  for (size_t i = 0; i < config.eval_dataset.size(); ++i) {
    check_eval_files(config, i, provenance, issues);
  }
  return issues;
}

}  // namespace tessera
