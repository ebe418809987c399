#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/model_config.h"

namespace tessera {

/// The families by their two names.
struct Family {
  std::string_view model_type;    // "qwen3"
  std::string_view architecture;  // "Qwen3ForCausalLM"
};
const std::vector<Family>& all_families();

/// Empty when there is none of that name.
std::string architecture_of(std::string_view model_type);
std::string model_type_of(std::string_view architecture);

/// What a model section that says nothing means: the family's column of MindFormers' defaults
/// (llama as qwen3), dropouts 0, no multi-token prediction.
ModelConfig family_defaults(std::string_view model_type);

/// What transformers takes for keys that a config.json leaves out, where that differs.
void apply_hf_defaults(std::string_view model_type, ModelConfig& model);

/// Keys of ours that a config.json does not spell but its family fixes: {key, YAML text}.
std::vector<std::pair<std::string_view, std::string_view>> hf_implied(std::string_view model_type);

}  // namespace tessera
