#include "tessera/layout/adapters.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer/regex.h"
#include "tessera/layout/layer_modules.h"
#include "tessera/layout/placement.h"

namespace tessera {
namespace {

constexpr std::string_view kWeight = ".weight";

// MindFormers' name of the module that holds the matrices of `role`, relative to the layer; empty:
// they have no adapters.
std::string reference_name(ParamRole role, const LayerDesign& design) {
  using enum ParamRole;
  using Module = LayerModule;
  const auto first = [&](LayerModule module) { return module_names(module, design).front(); };
  switch (role) {
    case kAttnQ:
    case kAttnK:
    case kAttnV: return first(Module::kQkv);
    case kAttnO: return first(Module::kOutput);
    case kMlaQA:
    case kMlaKvA: return first(Module::kLatentDown);
    case kMlaQB: return first(Module::kQueryUp);
    case kMlaKvB: return first(Module::kKeyValueUp);
    case kMlpGate:
    case kMlpUp: return first(Module::kGateUp);
    case kMlpDown: return first(Module::kDown);
    case kExpertGate:
    case kExpertUp:
    case kExpertDown: return first(Module::kExperts);
    case kSharedGate:
    case kSharedUp: return first(Module::kSharedExperts) + ".linear_fc1";
    case kSharedDown: return first(Module::kSharedExperts) + ".linear_fc2";
    case kSharedExpertGate: return first(Module::kSharedExperts) + ".shared_experts_gate";
    case kMtpProjection: return "eh_proj";
    default: return "";
  }
}

std::string reference_prefix(const ParamSpec& spec, const ModelConfig& model) {
  const int64_t depth = spec.layer - model.num_hidden_layers;
  if (depth < 0) return "model.decoder.layers." + std::to_string(spec.layer) + ".";
  const std::string prediction = "model.mtp.layers." + std::to_string(depth) + ".";
  return spec.role == ParamRole::kMtpProjection ? prediction : prediction + "transformer_layer.";
}

// Searches the patterns of a configuration.
class Patterns {
 public:
  explicit Patterns(const LoraConfig& lora) : target_(lora.target_modules) {
    if (lora.exclude_layers) exclude_ = std::make_unique<Regex>(*lora.exclude_layers);
  }

  bool name(const std::vector<std::string>& paths) {
    bool found = false;
    for (const std::string& path : paths) {
      if (excludes(path)) return false;
      found = found || target_.find(path, 0, scratch_).has_value();
    }
    return found;
  }

 private:
  // Itself or a module that it is part of.
  bool excludes(const std::string& path) {
    if (!exclude_) return false;
    for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
      if (exclude_->find(path.substr(0, end), 0, scratch_)) return true;
      if (end == std::string::npos) return false;
    }
  }

  Regex target_;
  std::unique_ptr<Regex> exclude_;
  RegexScratch scratch_;
};

// Which of `plain` are named, and layers' experts of one role of which only some are.
struct Named {
  std::vector<bool> matrices;
  std::vector<std::string> some_experts;
};

Named named_in(const std::vector<ParamSpec>& plain, const ModelConfig& model) {
  Patterns patterns(model.lora);
  Named result;
  std::map<std::pair<int64_t, ParamRole>, std::vector<size_t>> experts;
  for (const ParamSpec& spec : plain) {
    const std::vector<std::string> paths = adapter_paths(spec, model);
    result.matrices.push_back(!paths.empty() && patterns.name(paths));
    if (!paths.empty() && spec.expert >= 0) {
      experts[{spec.layer, spec.role}].push_back(result.matrices.size() - 1);
    }
  }
  for (const auto& [key, places] : experts) {
    size_t count = 0;
    for (const size_t place : places) count += result.matrices[place] ? 1 : 0;
    if (count == 0 || count == places.size()) continue;
    for (const size_t place : places) {
      if (!result.matrices[place])
        result.some_experts.push_back(adapter_paths(plain[place], model)[0]);
      result.matrices[place] = false;
    }
  }
  return result;
}

ParamSpec adapter_of(const ParamSpec& matrix, AdapterSide side, const ModelConfig& model) {
  ParamSpec spec;
  spec.name = adapter_name(matrix.name, side);
  spec.shape = matrix.shape;
  spec.shape[side == AdapterSide::kA ? 0 : 1] = model.lora.lora_rank;
  spec.role = adapter_role(matrix.role, side, model.design());
  spec.layer = matrix.layer;
  spec.expert = matrix.expert;
  spec.adapts = matrix.name;
  return spec;
}

}  // namespace

std::string adapter_name(const std::string& matrix, AdapterSide side) {
  TESSERA_CHECK(matrix.ends_with(kWeight), matrix, " is no matrix of a module");
  return matrix.substr(0, matrix.size() - kWeight.size()) +
         (side == AdapterSide::kA ? ".lora_A" : ".lora_B") + std::string(kWeight);
}

std::vector<std::string> adapter_paths(const ParamSpec& spec, const ModelConfig& model) {
  if (!spec.tied_to.empty() || !spec.adapts.empty() || !spec.name.ends_with(kWeight)) return {};
  const std::string published = spec.name.substr(0, spec.name.size() - kWeight.size());
  if (spec.role == ParamRole::kHead) return {published, "model.output_layer"};
  const std::string name = reference_name(spec.role, model.design());
  if (name.empty()) return {};
  return {published, reference_prefix(spec, model) + name};
}

std::vector<ParamSpec> with_adapters(std::vector<ParamSpec> plain, const ModelConfig& model) {
  const Named named = named_in(plain, model);
  std::vector<ParamSpec> all;
  for (size_t i = 0; i < plain.size(); ++i) {
    plain[i].frozen = true;
    all.push_back(std::move(plain[i]));
    if (!named.matrices[i]) continue;
    const ParamSpec matrix = all.back();
    all.push_back(adapter_of(matrix, AdapterSide::kA, model));
    all.push_back(adapter_of(matrix, AdapterSide::kB, model));
  }
  return all;
}

int64_t first_trained_layer(const ModelConfig& model) {
  if (!model.lora.is_given()) return -1;
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const ParamSpec& spec : model_spec(model)) {
    if (!spec.adapts.empty() && spec.layer >= 0) first = std::min(first, spec.layer);
  }
  return first;
}

std::string pattern_problem(const std::string& pattern) {
  try {
    const Regex regex(pattern);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

AdapterMatches adapter_matches(const ModelConfig& model) {
  ModelConfig without = model;
  without.lora = {};
  const std::vector<ParamSpec> plain = model_spec(without);
  const Named named = named_in(plain, model);
  AdapterMatches matches;
  matches.some_experts = named.some_experts;
  RegexScratch scratch;
  matches.names_embedding =
      model.lora.target_modules.find("embed") != std::string::npos &&
      Regex(model.lora.target_modules).find("model.embed_tokens", 0, scratch).has_value();
  std::set<std::string> seen;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (named.matrices[i]) {
      ++matches.matrices;
      matches.of_experts = matches.of_experts || plain[i].expert >= 0;
    }
    if (plain[i].expert > 0 || plain[i].layer > 1) continue;
    for (std::string& path : adapter_paths(plain[i], model)) {
      if (seen.insert(path).second) matches.candidates.push_back(std::move(path));
    }
  }
  return matches;
}

}  // namespace tessera
