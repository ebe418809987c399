#include "tessera/generate/generation_config.h"

#include <algorithm>
#include <array>

#include "tessera/base/error.h"
#include "tessera/config/load.h"
#include "tessera/planner/weights_check.h"
#include "tessera/rules/validate.h"
#include "tessera/storage/adapter_config.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/manifest.h"

namespace tessera {
namespace {

using Overrides = std::vector<std::string>;

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

Overrides with_dtype(Overrides list, const std::string& dtype) {
  for (const char* key : {"params_dtype", "embedding_params_dtype", "compute_dtype",
                          "layernorm_compute_dtype", "rotary_dtype"}) {
    list.push_back("model." + std::string(key) + "=" + dtype);
  }
  // A router chooses in float32 at least, as it does in training.
  if (dtype == "float64") list.push_back("model.moe_router_dtype=float64");
  return list;
}

void append(Overrides& list, const Overrides& more) {
  list.insert(list.end(), more.begin(), more.end());
}

ConfigResult of_folder(const ModelSource& source, const Overrides& overrides) {
  const std::string text =
      "checkpoint: {load_path: " + quoted(source.folder) + "}\ncontext: {device_target: CPU}\n";
  Overrides all = with_dtype({}, source.dtype);
  if (!source.adapter.empty()) append(all, adapter_overrides(source.adapter, source.folder));
  append(all, overrides);
  return load_config_text(text, "--model", ".", all);
}

// The run's model; how it was cut is the run's own business.
ConfigResult of_checkpoint(const ModelSource& source, const Overrides& overrides) {
  const auto choice = checkpoints_at(source.checkpoint);
  const Manifest manifest = read_manifest(choice.folders.front());
  const std::string name = (choice.folders.front() / kManifestName).string() + ": config";
  ConfigResult run = load_config_text(manifest.config, name, ".",
                                      {"checkpoint.load_path=''", "checkpoint.base_load_path=''"});
  if (!run.ok()) throw CheckpointError(format_issues(run.issues));
  run.config.parallelism = {};
  run.config.recompute = {};
  run.config.checkpoint = {};
  run.config.optimizer = {};
  run.config.context.device_target = "CPU";
  Overrides all = with_dtype({"checkpoint.load_path=" + quoted(source.checkpoint)}, source.dtype);
  if (!manifest.base.empty()) {
    all.push_back("checkpoint.base_load_path=" + quoted(base_path_of(manifest)));
  }
  append(all, overrides);
  return load_config_text(to_yaml(run.config), name, ".", all);
}

// Sections that say nothing about a model that only writes.
bool concerns_training(const std::string& field) {
  constexpr std::array<std::string_view, 10> kSections = {
      "train_dataset", "eval_dataset", "training",  "optimizer",  "lr_scheduler",
      "recompute",     "monitor",      "callbacks", "output_dir", "run_mode"};
  return std::ranges::any_of(kSections, [&](std::string_view section) {
    return field == section || field.starts_with(std::string(section) + ".") ||
           field.starts_with(std::string(section) + "_");
  });
}

void throw_errors(std::vector<Issue> issues) {
  std::erase_if(issues, [](const Issue& issue) {
    return issue.severity != Severity::kError || concerns_training(issue.field);
  });
  if (has_errors(issues)) throw ConfigError(format_issues(issues));
}

// What lies where the weights should be says more than a model that could not be read from it.
std::vector<Issue> weights_issues(const ConfigResult& result, bool is_read) {
  WeightsCheck check = check_weights(result.config, result.provenance, is_read);
  for (Issue& issue : check.absent) {
    issue.severity = Severity::kError;
    check.issues.push_back(std::move(issue));
  }
  return std::move(check.issues);
}

void refuse_what_is_not_built(const Config& config) {
  if (config.parallelism.context_parallel > 1) {
    throw ConfigError(
        "parallelism.context_parallel: a model that writes is not cut by context; 1 is legal");
  }
  if (config.checkpoint.load_path.empty()) {
    throw ConfigError("checkpoint.load_path: is needed: the weights of the model that writes");
  }
}

}  // namespace

Config generation_config(const ModelSource& source, const std::vector<std::string>& overrides,
                         int64_t world) {
  const int given = !source.folder.empty() + !source.checkpoint.empty() + !source.config.empty();
  if (given != 1) throw ConfigError("one of --model, --checkpoint and --config is needed");
  ConfigResult result = !source.folder.empty()       ? of_folder(source, overrides)
                        : !source.checkpoint.empty() ? of_checkpoint(source, overrides)
                                                     : load_config(source.config, overrides);
  refuse_what_is_not_built(result.config);
  if (!source.adapter.empty() && source.folder.empty()) {
    throw ConfigError("--adapter: --model FOLDER names its base");
  }
  result.config.model.frozen_dtype.reset();  // computed with at once
  result.config.train_dataset = {};
  result.config.eval_dataset.clear();
  const bool is_read = result.ok();
  throw_errors(weights_issues(result, is_read));
  throw_errors(result.issues);
  // The length is the run's own; a rule of training looks at it.
  result.config.model.seq_length = 64 * result.config.parallelism.tensor_parallel;
  throw_errors(validate(result.config, result.provenance, world));
  return std::move(result.config);
}

}  // namespace tessera
