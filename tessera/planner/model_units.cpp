#include "tessera/planner/model_units.h"

#include <algorithm>
#include <limits>
#include <string_view>

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

// "….experts.{e}.gate_proj.lora_A.weight" of the first expert's.
std::string stacked_name(const ParamSpec& spec) {
  constexpr std::string_view kFirst = ".0.";
  std::string name = spec.name;
  return name.replace(name.find(kFirst, layer_prefix(spec.layer).size()), kFirst.size(), ".{e}.");
}

void add(ModelUnit& unit, const ParamSpec& spec, const ModelConfig& model) {
  std::vector<int64_t> shape = spec.shape;
  std::string name = spec.name;
  if (is_expert(spec.role)) {
    if (spec.expert > 0) return;  // in the stack of the first
    shape.insert(shape.begin(), model.n_routed_experts);
    name = is_adapter(spec.role)
               ? stacked_name(spec)
               : layer_prefix(spec.layer) + weight_name(spec.role, model.design());
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
  group.frozen = spec.frozen;
  group.held = spec.frozen ? frozen_dtype(spec.role, model) : master_dtype(model);
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
  int64_t first_trained = std::numeric_limits<int64_t>::max();
  ParamRole matrix = ParamRole::kNorm;  // of the last one, which its adapter follows
  for (const ParamSpec& spec : model_spec(model)) {
    ModelUnit& unit = unit_of(units, spec);
    if (spec.adapts.empty()) {
      matrix = spec.role;
    } else {
      unit.adapted.insert(matrix);
      if (spec.layer >= 0) first_trained = std::min(first_trained, spec.layer);
    }
    if (!spec.tied_to.empty()) {
      unit.uses_embedding = true;
    } else if (spec.trainable) {
      add(unit, spec, model);
    } else {
      unit.constants += spec.numel();
    }
  }
  for (ModelUnit& unit : units) {
    const bool head = unit.kind == ModelUnit::Kind::kHead;
    const bool all = !model.lora.is_given();
    unit.trains = all || head || unit.layer >= first_trained;
    unit.trains_before = all || head || unit.layer > first_trained;
  }
  return units;
}

}  // namespace tessera
