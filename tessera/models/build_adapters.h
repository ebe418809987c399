#pragma once

#include "tessera/config/model_config.h"
#include "tessera/models/decoder.h"
#include "tessera/models/weight_factory.h"

namespace tessera {

/// Gives the linear layers, the experts and the head of `decoder` the adapters that model.lora
/// names. Their weights are those of model_spec.
void add_adapters(Decoder& decoder, const ModelConfig& model, const WeightFactory& factory);

}  // namespace tessera
