#include "tessera/launcher/preflight.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/config/load.h"
#include "tessera/layout/training_data.h"
#include "tessera/planner/data_plan.h"
#include "tessera/planner/weights_check.h"
#include "tessera/rules/checker.h"
#include "tessera/rules/derive.h"
#include "tessera/rules/presence.h"
#include "tessera/rules/validate.h"

namespace tessera {
namespace {

void append(std::vector<Issue>& issues, std::vector<Issue> more) {
  for (Issue& issue : more) issues.push_back(std::move(issue));
}

// Token files that are damaged, or too few samples.
void check_data(const ConfigResult& loaded, Preflight& result) {
  const Config& config = loaded.config;
  result.data = plan_data(config, make_batch_plan(config, result.dims));
  if (result.data->problem.empty()) return;
  Checker check(config, loaded.provenance, result.issues);
  const DataloaderConfig& loader = config.train_dataset.dataloader;
  const char* key = loader.type == "HFDataLoader" ? "data_files"
                    : loader.config.data_path     ? "config.data_path"
                                                  : "config.train_data_path";
  check.error(std::string("train_dataset.dataloader.") + key, result.data->problem);
}

// Sets without one sample, or of damaged files.
void check_eval_data(const ConfigResult& loaded, Preflight& result) {
  const std::vector<EvalDatasetConfig>& sets = loaded.config.eval_dataset;
  for (size_t i = 0; i < sets.size(); ++i) {
    Issue issue;
    issue.field = eval_path(sets, i, loaded.provenance) + ".dataloader";
    issue.source = loaded.provenance.at("");
    try {
      const auto options = evaluation_data(loaded.config, sets[i]);
      if (options && count_samples(*options) > 0) continue;
      issue.rule = options ? "holds no sample" : "names no data";
    } catch (const ConfigError& error) {
      issue.rule = error.what();
    }
    result.issues.push_back(std::move(issue));
  }
}

}  // namespace

Preflight preflight(const std::string& path, const std::vector<std::string>& overrides,
                    const PreflightOptions& options) {
  ConfigResult loaded = load_config(path, overrides, options.families);
  Preflight result;
  if (options.to_run && loaded.config.run_mode == "predict") {
    // Rules of training are not those of a model that only writes: the engine checks these.
    result.issues = std::move(loaded.issues);
    result.config = std::move(loaded.config);
    return result;
  }
  // Also after errors: what the rules say of the rest of the file is wanted in the same report.
  result.issues = validate(loaded, options.world, options.ranks_per_node, options.families);
  WeightsCheck weights = check_weights(loaded.config, loaded.provenance, result.ok());
  result.of_checkpoint =
      options.to_run && result.ok() && weights.of_checkpoint && has_errors(weights.issues);
  std::vector<Issue> missing = check_presence(loaded.config, loaded.provenance);
  const bool data_there = std::ranges::none_of(missing, [](const Issue& issue) {
    return issue.field.find("_dataset") != std::string::npos;
  });
  append(missing, std::move(weights.absent));
  if (!options.to_run) {
    for (Issue& issue : missing) issue.severity = Severity::kWarning;
  }
  result.of_checkpoint &= !has_errors(missing);
  append(result.issues, std::move(missing));
  append(result.issues, std::move(weights.issues));
  if (result.ok()) result.dims = derive_dims(loaded.config, options.world);
  if (result.ok() && data_there) check_data(loaded, result);
  if (result.ok() && data_there) check_eval_data(loaded, result);
  result.config = std::move(loaded.config);
  result.provenance = std::move(loaded.provenance);
  return result;
}

void report_or_throw(const Preflight& checked, const std::string& path) {
  std::vector<Issue> errors;
  std::vector<Issue> others;
  for (const Issue& issue : checked.issues) {
    (issue.severity == Severity::kError ? errors : others).push_back(issue);
  }
  if (!errors.empty()) {
    const std::string count =
        errors.size() == 1 ? "one error" : std::to_string(errors.size()) + " errors";
    const std::string text = count + " in " + path + "\n" + format_issues(errors);
    if (checked.of_checkpoint) throw CheckpointError(text);
    throw ConfigError(text);
  }
  if (!others.empty()) log_info(format_issues(others));
}

}  // namespace tessera
