#pragma once

#include <string>

#include "tessera/config/model_config.h"

namespace tessera {

/// The config.json of a model whose weights are stored as `dtype`: what transformers needs to
/// compute the same, and what load_config reads back to the same ModelConfig (but for what only
/// concerns training). Ends with a newline. What `published`, the config.json that the model was
/// started from, says beyond the model (tokens' ids, settings of generation, a loss of its routers)
/// stays as it is there; empty, or of another family: there is none.
std::string hf_config_json(const ModelConfig& model, DType dtype,
                           const std::string& published = "");

/// The text of the config.json at `path`, a Hugging Face folder, a checkpoint or the folder of
/// several; empty when there is none.
std::string published_config(const std::string& path);

}  // namespace tessera
