#pragma once

#include <cstdint>
#include <memory>

#include "tessera/config/model_config.h"
#include "tessera/models/weight_factory.h"
#include "tessera/nn/experts/moe.h"

namespace tessera {

/// The experts, the router and the shared experts of a layer, with everything on this rank.
std::unique_ptr<MixtureOfExperts> build_moe(const ModelConfig& model, const WeightFactory& factory,
                                            int64_t layer);

}  // namespace tessera
