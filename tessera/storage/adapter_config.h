#pragma once

// adapter_config.json, which PEFT writes beside the weights of low-rank adapters.
// (https://huggingface.co/docs/peft, LoraConfig)

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"

namespace tessera {

/// The section lora_config that the adapters in `folder` ask for. Throws CheckpointError that names
/// the file: not there, damaged, or it asks for what is not built (DoRA, rank-stabilised factors,
/// ranks or alphas by pattern, biases, modules that are saved whole).
LoraConfig read_adapter_config(const std::filesystem::path& folder);

/// Why the adapters in `folder` do not fit `lora`: another rank or factor, or what is not built.
/// Which matrices they adapt is told by their names. Empty: they fit.
std::string adapter_problem(const std::filesystem::path& folder, const LoraConfig& lora);

/// "section.field=value" texts that add the adapters in `folder` to the model at `base`. Throws as
/// read_adapter_config.
std::vector<std::string> adapter_overrides(const std::filesystem::path& folder,
                                           const std::string& base);

/// The file for adapters of `model` (its base at `base`, told to readers).
std::string adapter_config_json(const ModelConfig& model, const std::string& base);

}  // namespace tessera
