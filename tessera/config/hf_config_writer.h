#pragma once

#include <string>

#include "tessera/config/model_config.h"

namespace tessera {

/// The config.json of a model whose weights are stored as `dtype`: what transformers needs to
/// compute the same, and what load_config reads back to the same ModelConfig (but for what only
/// concerns training). Ends with a newline.
std::string hf_config_json(const ModelConfig& model, DType dtype);

}  // namespace tessera
