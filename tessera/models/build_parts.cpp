#include "tessera/models/build_parts.h"

namespace tessera {

std::unique_ptr<Norm> make_norm(const ModelConfig& model, const WeightFactory& factory,
                                int64_t layer, std::string_view name) {
  auto norm = std::make_unique<Norm>();
  norm->weight = factory.make_norm(layer, name);
  norm->eps = model.rms_norm_eps;
  norm->one_plus = model.design().norm_scale == NormScale::kOnePlusWeight;
  return norm;
}

std::unique_ptr<Norm> make_norm(const ModelConfig& model, const WeightFactory& factory,
                                int64_t layer, NormPlace place) {
  const LayerNorm* norm = model.norm_at(place);
  return norm ? make_norm(model, factory, layer, norm->name) : nullptr;
}

GatedUnit gated_unit_of(const ModelConfig& model) {
  GatedUnit unit;
  if (has_gelu_gate(model)) unit = kernels::kGeluTanhUnit;
  unit.slope *= model.design().gate_slope;
  unit.shift = model.design().up_shift;
  if (model.activation_func_clamp_value) unit.limit = *model.activation_func_clamp_value;
  return unit;
}

std::unique_ptr<Linear> make_linear(const WeightFactory& factory, int64_t layer, ParamRole weight,
                                    ParamRole bias) {
  auto linear = std::make_unique<Linear>();
  linear->weight = factory.make(layer, {weight});
  linear->bias = factory.make(layer, {bias});
  return linear;
}

std::unique_ptr<Projections> make_projections(const WeightFactory& factory, int64_t layer,
                                              const std::vector<ParamRole>& weights,
                                              const std::vector<ParamRole>& biases) {
  auto projections = std::make_unique<Projections>();
  projections->weight = factory.make(layer, weights);
  projections->bias = factory.make(layer, biases);
  projections->part_rows = factory.rows(layer, weights);
  return projections;
}

}  // namespace tessera
