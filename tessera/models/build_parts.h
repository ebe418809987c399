#pragma once

// Layers of a model, out of the names and shapes of its specification.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/models/weight_factory.h"
#include "tessera/nn/kernels/gated_unit.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// The norm called `name`, see WeightFactory::make_norm.
std::unique_ptr<Norm> make_norm(const ModelConfig& model, const WeightFactory& factory,
                                int64_t layer, std::string_view name);

/// The norm that the family has at a place of `layer`, or null.
std::unique_ptr<Norm> make_norm(const ModelConfig& model, const WeightFactory& factory,
                                int64_t layer, NormPlace place);

/// What is between gate and up, by model.hidden_act, its clamp and the family.
GatedUnit gated_unit_of(const ModelConfig& model);

std::unique_ptr<Linear> make_linear(const WeightFactory& factory, int64_t layer, ParamRole weight,
                                    ParamRole bias);

std::unique_ptr<Projections> make_projections(const WeightFactory& factory, int64_t layer,
                                              const std::vector<ParamRole>& weights,
                                              const std::vector<ParamRole>& biases);

}  // namespace tessera
