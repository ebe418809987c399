#include "tessera/storage/adapter_config.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/layout/adapters.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// A list names ends of paths, a text is a pattern that the whole path matches.
std::string pattern_of(const Json& targets) {
  if (targets.is_string()) return "^(?:" + targets.get<std::string>() + ")$";
  std::string pattern;
  for (const Json& name : targets) {
    for (const char c : name.get<std::string>()) {
      if (pattern.empty()) pattern = "(?:^|\\.)(?:";
      if (c == '.') pattern += '\\';
      pattern += c;
    }
    pattern += '|';
  }
  if (pattern.empty()) return "";
  pattern.back() = ')';
  return pattern + "$";
}

bool is_off(const Json& value) {
  return value.is_null() || value == false || value == "none" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

}  // namespace

LoraConfig read_adapter_config(const fs::path& folder) {
  const fs::path path = folder / kAdapterConfig;
  try {
    std::ifstream in(path);
    if (!in) throw CheckpointError(path.string() + ": is not there");
    const Json root = Json::parse(in);
    if (root.value("peft_type", "LORA") != "LORA") {
      throw CheckpointError(path.string() + ": peft_type must be LORA");
    }
    for (const char* key : {"use_dora", "use_rslora", "fan_in_fan_out", "rank_pattern",
                            "alpha_pattern", "bias", "modules_to_save", "layers_to_transform",
                            "target_parameters", "layer_replication", "use_qalora", "lora_bias"}) {
      if (root.contains(key) && !is_off(root.at(key))) {
        throw CheckpointError(path.string() + ": " + key + " = " + root.at(key).dump() +
                              ": is not built");
      }
    }
    LoraConfig lora;
    lora.lora_rank = root.at("r").get<int64_t>();
    const double alpha = root.at("lora_alpha").get<double>();
    lora.lora_alpha = static_cast<int64_t>(alpha);
    if (static_cast<double>(lora.lora_alpha) != alpha || lora.lora_alpha < 1 ||
        lora.lora_rank < 1) {
      throw CheckpointError(path.string() + ": r and lora_alpha must be whole numbers above 0");
    }
    lora.lora_dropout = root.value("lora_dropout", 0.0);
    lora.target_modules = pattern_of(root.at("target_modules"));
    if (root.contains("exclude_modules") && !is_off(root.at("exclude_modules"))) {
      lora.exclude_layers = pattern_of(root.at("exclude_modules"));
    }
    if (lora.target_modules.empty()) {
      throw CheckpointError(path.string() + ": target_modules names nothing");
    }
    return lora;
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(path.string() + ": " + error.what());
  }
}

std::string adapter_problem(const fs::path& folder, const LoraConfig& lora) {
  const auto differs = [](const char* key, int64_t there, const char* ours, int64_t here) {
    return there == here
               ? ""
               : std::string(kAdapterConfig) + " has " + key + " = " + std::to_string(there) +
                     ", the file " + ours + " = " + std::to_string(here);
  };
  try {
    const LoraConfig there = read_adapter_config(folder);
    const std::string rank = differs("r", there.lora_rank, "lora_config.lora_rank", lora.lora_rank);
    return !rank.empty()
               ? rank
               : differs("lora_alpha", there.lora_alpha, "lora_config.lora_alpha", lora.lora_alpha);
  } catch (const CheckpointError& problem) {
    return problem.what();
  }
}

std::vector<std::string> adapter_overrides(const fs::path& folder, const std::string& base) {
  const LoraConfig lora = read_adapter_config(folder);
  const auto quoted = [](const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
    return out + "'";
  };
  std::vector<std::string> all = {
      "checkpoint.load_path=" + quoted(fs::absolute(folder).string()),
      "checkpoint.base_load_path=" + quoted(fs::absolute(base).string()),
      "lora_config.target_modules=" + quoted(lora.target_modules),
      "lora_config.lora_rank=" + std::to_string(lora.lora_rank),
      "lora_config.lora_alpha=" + std::to_string(lora.lora_alpha),
      "lora_config.lora_dropout=0"};
  if (lora.exclude_layers) {
    all.push_back("lora_config.exclude_layers=" + quoted(*lora.exclude_layers));
  }
  return all;
}

std::string adapter_config_json(const ModelConfig& model, const std::string& base) {
  std::set<std::string> modules;  // last parts of the names of what is adapted
  std::vector<std::string> whole;
  for (const ParamSpec& spec : model_spec(model)) {
    if (spec.adapts.empty()) continue;
    std::string path = spec.adapts.substr(0, spec.adapts.rfind('.'));
    if (whole.empty() || whole.back() != path) whole.push_back(path);
    modules.insert(path.substr(path.rfind('.') + 1));
  }
  // By their last names if these name no other matrix, else one by one.
  bool by_last_name = true;
  for (const ParamSpec& spec : model_spec(model)) {
    if (!spec.adapts.empty() || spec.shape.size() != 2) continue;
    const std::string path = spec.name.substr(0, spec.name.rfind('.'));
    if (!modules.contains(path.substr(path.rfind('.') + 1))) continue;
    by_last_name = by_last_name && std::ranges::find(whole, path) != whole.end();
  }
  Json root;
  root["peft_type"] = "LORA";
  root["task_type"] = "CAUSAL_LM";
  root["base_model_name_or_path"] = base;
  root["r"] = model.lora.lora_rank;
  root["lora_alpha"] = model.lora.lora_alpha;
  root["lora_dropout"] = model.lora.lora_dropout;
  root["target_modules"] = by_last_name ? Json(modules) : Json(whole);
  root["bias"] = "none";
  root["fan_in_fan_out"] = false;
  root["inference_mode"] = true;
  root["init_lora_weights"] = true;
  root["modules_to_save"] = nullptr;
  root["use_dora"] = false;
  root["use_rslora"] = false;
  return root.dump(2) + "\n";
}

}  // namespace tessera
