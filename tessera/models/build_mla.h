#pragma once

#include <cstdint>
#include <memory>

#include "tessera/config/model_config.h"
#include "tessera/models/weight_factory.h"
#include "tessera/nn/attention/mla.h"

namespace tessera {

/// Multi-head latent attention, with or without a low rank of the queries.
std::unique_ptr<LatentAttention> build_mla(const ModelConfig& model, const WeightFactory& factory,
                                           int64_t layer);

}  // namespace tessera
