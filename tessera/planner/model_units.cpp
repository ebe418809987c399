#include "tessera/planner/model_units.h"

#include <algorithm>

#include "tessera/layout/dtypes.h"
#include "tessera/layout/placement.h"
#include "tessera/layout/weight_names.h"

namespace tessera {
namespace {

// The unit of `spec` at the end of `units`, which follow the order of the model.
ModelUnit& unit_of(std::vector<ModelUnit>& units, const ParamSpec& spec) {
  ModelUnit::Kind kind = ModelUnit::Kind::kHead;
  if (spec.layer >= 0) kind = ModelUnit::Kind::kLayer;
  if (spec.role == ParamRole::kEmbedding && spec.layer < 0) kind = ModelUnit::Kind::kEmbedding;
  const auto same = [&](const ModelUnit& unit) {
    return unit.kind == kind && unit.layer == std::max<int64_t>(spec.layer, -1);
  };
  const auto found = std::find_if(units.rbegin(), units.rend(), same);
  if (found != units.rend()) return *found;
  ModelUnit unit;
  unit.kind = kind;
  unit.layer = spec.layer;
  units.push_back(unit);
  return units.back();
}

void add(ModelUnit& unit, const ParamSpec& spec, const ModelConfig& model) {
  std::vector<int64_t> shape = spec.shape;
  std::string name = spec.name;
  if (is_expert(spec.role)) {
    if (spec.expert > 0) return;  // in the stack of the first
    shape.insert(shape.begin(), model.n_routed_experts);
    name = layer_prefix(spec.layer) + weight_name(spec.role, model.design());
  }
  for (TensorGroup& group : unit.tensors) {
    if (group.role == spec.role && group.shape == shape) {
      ++group.count;
      group.names.push_back(std::move(name));
      return;
    }
  }
  TensorGroup group;
  group.role = spec.role;
  group.shape = shape;
  group.names.push_back(std::move(name));
  group.compute = compute_dtype(spec.role, model);
  unit.tensors.push_back(group);
}

}  // namespace

int64_t TensorGroup::elements() const {
  int64_t product = count;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

int64_t ModelUnit::elements() const {
  int64_t sum = 0;
  for (const TensorGroup& group : tensors) sum += group.elements();
  return sum;
}

std::vector<ModelUnit> model_units(const ModelConfig& model) {
  std::vector<ModelUnit> units;
  for (const ParamSpec& spec : model_spec(model)) {
    ModelUnit& unit = unit_of(units, spec);
    if (!spec.tied_to.empty()) {
      unit.uses_embedding = true;
    } else if (spec.trainable) {
      add(unit, spec, model);
    } else {
      unit.constants += spec.numel();
    }
  }
  return units;
}

}  // namespace tessera
