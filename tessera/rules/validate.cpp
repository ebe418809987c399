#include "tessera/rules/validate.h"

#include <algorithm>

#include "tessera/config/blend.h"
#include "tessera/config/cpu_features.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/layout/training_data.h"
#include "tessera/rules/checker.h"
#include "tessera/rules/derive.h"

namespace tessera {
namespace {

void check_machine(Checker& check, int64_t ranks_per_node) {
  const Config& config = check.config;
  const std::string& device = config.context.device_target;
  const bool on_cpu = device == "CPU" || (device == "Ascend" && !has_cuda_driver());
  for (const auto& [path, asked] :
       {std::pair{"parallelism.cpu_offload", config.parallelism.cpu_offload},
        std::pair{"optimizer.enable_cpu_offload", config.optimizer.enable_cpu_offload}}) {
    if (!asked) continue;
    if (on_cpu) {
      check.no_effect(path);
    } else {
      check.error(path, "is not built for ranks with a CUDA device", "false");
    }
  }
  const OptimizerConfig& optimizer = config.optimizer;
  if (!on_cpu && optimizer.moment_dtype != "float32" && optimizer.kind &&
      optimizer.kind->has("moment_dtype")) {
    check.error("optimizer.moment_dtype", "is not built for ranks with a CUDA device", "float32");
  }
  const ModelConfig& m = config.model;
  if (check.model_ok && on_cpu && m.compute_dtype == DType::kBFloat16 && !cpu_has_bfloat16()) {
    check.warning("model.compute_dtype",
                  "this CPU has no bfloat16 units: its matrices are multiplied in float32 and the "
                  "results rounded, so it is no faster than float32");
  }
  const ParallelismConfig& p = config.parallelism;
  if (p.enable_mc2 && p.tensor_parallel == 1) check.no_effect("parallelism.enable_mc2");
  if (ranks_per_node > 0 && p.moe_token_dispatcher_type == "alltoall_deredundancy" &&
      p.npu_nums_per_device != ranks_per_node) {
    check.warning("parallelism.npu_nums_per_device",
                  "the workers of a node are " + std::to_string(ranks_per_node));
  }
}

void name_what_has_no_effect(Checker& check) {
  if (check.without_effect().empty()) return;
  std::string keys;
  std::vector<std::string> named;
  for (const std::string& key : check.without_effect()) {
    if (std::ranges::find(named, key) != named.end()) continue;
    named.push_back(key);
    keys += (keys.empty() ? "" : ", ") + key;
  }
  check.general(Severity::kNote, "no effect here: " + keys);
}

// A set is judged as training data would be; what is found bears its own name.
void check_eval_set(const Checker& check, const EvalDatasetConfig& set, const std::string& path,
                    const Provenance& provenance, std::vector<Issue>& issues) {
  constexpr std::string_view kTrain = "train_dataset.";
  Config as_training = evaluated_as_training(check.config, set);
  DatasetConfig& data = as_training.train_dataset.dataloader.config;
  // Of its own split a set takes the second part, and may leave nothing to the first.
  std::string problem;
  const std::vector<double> parts = parse_split(data.split.value_or("1"), problem);
  if (data.split && problem.empty()) {
    if (parts.size() < 2 || !(parts[1] > 0)) {
      problem = "leaves nothing for validation, the second part";
    } else {
      data.split = "1";
    }
  }
  Provenance own_places;
  for (const auto& [key, source] : provenance) {
    if (!key.starts_with(kTrain)) own_places[key] = source;
    if (key.starts_with(path + ".")) {
      own_places[std::string(kTrain) + key.substr(path.size() + 1)] = source;
    }
  }
  std::vector<Issue> found;
  Checker own(as_training, own_places, found, check.families, check.optimizers);
  own.model_ok = check.model_ok;
  check_dataset(own);
  if (data.split && !problem.empty()) own.error("train_dataset.dataloader.config.split", problem);
  for (Issue& issue : found) {
    if (issue.field == "model.seq_length") {
      issue.field = path + ".dataloader.config.seq_length";
      issue.value = std::to_string(set.dataloader.config.seq_length);
      issue.rule = "must be model.seq_length";
      issue.nearest = std::to_string(check.config.model.seq_length);
    } else if (issue.field.starts_with(kTrain)) {
      issue.field = path + "." + issue.field.substr(kTrain.size());
    }
    issues.push_back(std::move(issue));
  }
}

void check_eval_sets(Checker& check, const Provenance& provenance, std::vector<Issue>& issues) {
  const std::vector<EvalDatasetConfig>& sets = check.config.eval_dataset;
  if (sets.empty()) {
    if (check.config.training.eval_interval > 0) {
      check.error("training.eval_interval", "needs eval_dataset: what is evaluated", "0");
    }
    return;
  }
  if (check.config.training.eval_interval == 0) check.no_effect("eval_dataset");
  for (size_t i = 0; i < sets.size(); ++i) {
    check_eval_set(check, sets[i], eval_path(sets, i, provenance), provenance, issues);
  }
}

// Whether the reader has refused `field`, or a section that it lies in: a rule then judges a
// default that nobody asked for.
bool is_unread(const std::vector<Issue>& reading, const std::string& field) {
  return std::ranges::any_of(reading, [&](const Issue& issue) {
    if (issue.severity != Severity::kError || issue.field.empty()) return false;
    return field == issue.field || field.starts_with(issue.field + ".");
  });
}

}  // namespace

std::vector<Issue> validate(const ConfigResult& result, int64_t world, int64_t ranks_per_node,
                            const FamilyTable& families, const OptimizerTable& optimizers) {
  std::vector<Issue> issues = result.issues;
  if (!result.is_read) return issues;
  for (Issue& issue :
       validate(result.config, result.provenance, world, ranks_per_node, families, optimizers)) {
    if (!is_unread(result.issues, issue.field)) issues.push_back(std::move(issue));
  }
  return issues;
}

std::vector<Issue> validate(const Config& config, const Provenance& provenance, int64_t world,
                            int64_t ranks_per_node, const FamilyTable& families,
                            const OptimizerTable& optimizers) {
  std::vector<Issue> issues;
  Checker check(config, provenance, issues, families, optimizers);
  if (config.run_mode == "predict") {
    check.error("run_mode",
                "predict trains nothing: `tessera train` answers its prompts, and "
                "nothing else takes such a file",
                "train");
  }
  check_single_values(check);
  check_model(check);
  check_attention_kinds(check);
  check_experts(check);
  check_dataset(check);
  check_eval_sets(check, provenance, issues);
  check.dims = derive_dims(check, world);
  check_batch(check);
  check_tensor_parallel(check);
  check_context_parallel(check);
  check_pipeline_parallel(check);
  check_expert_parallel(check);
  check_adapters(check);
  check_optimizer(check);
  check_lr_schedule(check);
  check_recompute(check);
  check_monitors(check);
  check_machine(check, ranks_per_node);
  name_what_has_no_effect(check);
  return issues;
}

}  // namespace tessera
