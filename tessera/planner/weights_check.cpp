#include "tessera/planner/weights_check.h"

#include <algorithm>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/config/family.h"
#include "tessera/config/fields/field.h"
#include "tessera/layout/model_spec.h"
#include "tessera/rules/checker.h"
#include "tessera/storage/adapter_config.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/other_folders.h"
#include "tessera/storage/published_weights.h"
#include "tessera/storage/starting_point.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLoadPath = "checkpoint.load_path";
constexpr const char* kResume = "checkpoint.resume";
constexpr const char* kBasePath = "checkpoint.base_load_path";

// Keys that shape a model, of which a family has those that its config.json has.
constexpr std::string_view kShapesOfSome[] = {
    "model.kv_lora_rank",     "model.qk_nope_head_dim",      "model.qk_rope_head_dim",
    "model.v_head_dim",       "model.n_routed_experts",      "model.num_experts_per_tok",
    "model.n_shared_experts", "model.first_k_dense_replace", "model.moe_intermediate_size"};

bool has_dense_layer(const ModelConfig& model) {
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    if (!model.is_moe_layer(layer)) return true;
  }
  return false;
}

class WeightsChecker {
 public:
  WeightsChecker(const Config& config, const Provenance& provenance, WeightsCheck& result)
      : config_(config),
        provenance_(provenance),
        start_(starting_point(config)),
        check_(config, provenance, result.issues),
        result_(result) {}

  void run(bool is_valid) {
    if (config_.model.lora.is_given() && !config_.checkpoint.base_load_path.empty()) {
      check_base(is_valid);
    }
    if (start_.path.empty()) return;
    std::error_code error;
    if (!fs::exists(start_.path, error)) {
      say_absent(kLoadPath);
      return;
    }
    try {
      const bool is_ours = fs::exists(start_.path / kManifestName);
      if (!is_ours && holds_adapters(start_.path)) {
        check_adapter_folder(is_valid);
      } else if (!is_ours && holds_published_weights(start_.path)) {
        if (is_base_twice()) return;
        if (is_valid) compare_published(start_.path, WeightRows::kBase);
      } else {
        compare_checkpoints(checkpoints_at(start_.path), is_valid);
      }
    } catch (const CheckpointError& problem) {
      refuse(problem.what());
    }
  }

 private:
  const char* field() const { return start_.own ? kResume : kLoadPath; }

  // Without the path in front, which is the value of the key.
  void refuse(std::string problem) {
    const std::string front = start_.path.string() + ": ";
    if (!start_.own && problem.starts_with(front)) problem.erase(0, front.size());
    check_.error(field(), problem);
  }

  // The model that adapters belong to.
  void check_base(bool is_valid) {
    const fs::path base = config_.checkpoint.base_load_path;
    std::error_code error;
    if (!fs::exists(base, error)) return say_absent(kBasePath);
    try {
      if (!fs::exists(base / kManifestName) && holds_published_weights(base)) {
        if (is_valid) compare_published(base, WeightRows::kBase);
        return;
      }
      const Manifest manifest = read_manifest(checkpoints_at(base).folders.front());
      if (!manifest.base.empty()) throw CheckpointError("holds adapters alone, no model");
      const std::string report =
          compare_with_model(manifest, select_rows(model_spec(config_.model), WeightRows::kBase));
      if (is_valid && !report.empty()) {
        throw CheckpointError("the checkpoint does not fit the model:" + report);
      }
    } catch (const CheckpointError& problem) {
      check_.error(kBasePath, problem.what());
    }
  }

  bool is_base_twice() {
    if (!config_.model.lora.is_given() || config_.checkpoint.base_load_path.empty()) return false;
    check_.error(kLoadPath,
                 "is a whole model, and checkpoint.base_load_path names one too; load_path is for "
                 "adapters, or left out for new ones");
    return true;
  }

  void check_adapter_folder(bool is_valid) {
    if (!config_.model.lora.is_given()) {
      check_.error(
          kLoadPath,
          "holds adapters: lora_config says what they are, checkpoint.base_load_path which "
          "model they belong to");
    } else if (config_.checkpoint.base_load_path.empty()) {
      check_.error(kLoadPath,
                   "holds adapters: checkpoint.base_load_path is needed, the model they belong to");
    } else if (const std::string problem = adapter_problem(start_.path, config_.model.lora);
               !problem.empty()) {
      refuse(problem);
    } else if (is_valid) {
      compare_published(start_.path, WeightRows::kAdapters);
    }
  }

  void say_absent(const char* path) {
    std::string rule = "no such folder; names on a hub are not looked up: download the model first";
    const std::string guessed = guessed_sizes();
    if (!guessed.empty()) rule += "; without it these are defaults: model." + guessed;
    Checker(config_, provenance_, result_.absent).error(path, rule);
  }

  // Those that decide how the model is built and that neither the file nor a config.json gives.
  std::string guessed_sizes() const {
    const ModelConfig& model = config_.model;
    std::vector<std::string> needed = {"model.vocab_size", "model.hidden_size",
                                       "model.num_hidden_layers", "model.num_attention_heads"};
    if (has_dense_layer(model)) needed.emplace_back("model.intermediate_size");
    if (model.family) {
      for (const std::string_view key : model.family->hf_keys) {
        const std::string path = "model." + canonical_key("model", key);
        if (std::ranges::find(kShapesOfSome, path) != std::end(kShapesOfSome)) {
          needed.push_back(path);
        }
      }
    }
    std::string text;
    for (const std::string& path : needed) {
      if (provenance_.contains(path)) continue;
      text += (text.empty() ? "" : ", ") + path.substr(std::string_view("model.").size());
    }
    return text;
  }

  bool sizes_are_given() {
    const std::string guessed = guessed_sizes();
    if (guessed.empty() || start_.own) return true;
    check_.error(kLoadPath, "neither a config.json there nor the file gives model." + guessed +
                                ": a model that is to have these weights is not built on defaults");
    return false;
  }

  void compare_published(const fs::path& folder, WeightRows rows) {
    if (!sizes_are_given()) return;
    const PublishedWeights weights(folder, select_rows(model_spec(config_.model), rows));
    if (const std::string problem = weights.problem(); !problem.empty()) {
      folder == start_.path ? refuse(problem) : check_.error(kBasePath, problem);
    } else if (const std::string unused = weights.unused(); !unused.empty()) {
      check_.general(Severity::kNote, folder.string() + ": " + unused);
    }
  }

  void compare_checkpoints(const CheckpointChoice& choice, bool is_valid) {
    result_.of_checkpoint = true;
    if (!choice.note.empty()) check_.warning(field(), choice.note);
    std::string damage;
    for (const fs::path& folder : choice.folders) {
      try {
        const Manifest manifest = read_manifest(folder);
        check_sizes(manifest, folder);
        if (is_valid && sizes_are_given()) compare(manifest, folder);
        if (!damage.empty()) check_.warning(field(), damage + ": passed over");
        return;
      } catch (const CheckpointError& problem) {
        damage += (damage.empty() ? "" : "; ") + std::string(problem.what());
      }
    }
    refuse((choice.folders.size() > 1 ? "no checkpoint is sound: " : "") + damage);
  }

  void compare(const Manifest& manifest, const fs::path& folder) {
    const bool alone = !manifest.base.empty();
    if (alone && !config_.model.lora.is_given()) {
      refuse(folder.string() + ": holds adapters alone, and there is no lora_config");
      return;
    }
    if (alone && config_.checkpoint.base_load_path.empty()) {
      refuse(
          folder.string() +
          ": holds adapters alone: checkpoint.base_load_path is needed, the model they belong to");
      return;
    }
    const std::string report = compare_with_model(
        manifest,
        select_rows(model_spec(config_.model), alone ? WeightRows::kAdapters : WeightRows::kAll));
    if (!report.empty()) {
      refuse(folder.string() + ": the checkpoint does not fit the model:" + report);
      return;
    }
    if (!start_.own && config_.checkpoint.no_load_optim) return;
    const std::string problem =
        optimizer_problem(manifest, config_.optimizer.type, keeps_state(config_));
    if (!problem.empty()) {
      refuse(folder.string() + ": " + problem);
    }
  }

  const Config& config_;
  const Provenance& provenance_;
  const StartingPoint start_;
  Checker check_;
  WeightsCheck& result_;
};

}  // namespace

WeightsCheck check_weights(const Config& config, const Provenance& provenance, bool is_valid) {
  WeightsCheck result;
  WeightsChecker(config, provenance, result).run(is_valid);
  return result;
}

}  // namespace tessera
