#include "tessera/models/weight_factory.h"

#include "tessera/base/error.h"
#include "tessera/layout/adapters.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/weight_names.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

WeightFactory::WeightFactory(const ModelConfig& model) : model_(model), deviation_(model) {
  for (ParamSpec& spec : model_spec(model)) {
    if (spec.expert < 0)
      specs_[spec.layer].push_back(std::move(spec));
    else if (spec.expert == 0)
      experts_[spec.layer].push_back(std::move(spec));
  }
}

Weight WeightFactory::make(int64_t layer, const std::vector<ParamRole>& roles) const {
  Weight weight;
  weight.dtype = scalar_type(compute_dtype(roles.front(), model_));
  for (const ParamRole role : roles) {
    const ParamSpec* spec = find(layer, role);
    if (spec == nullptr) continue;
    weight.parts.push_back(part(*spec));
    weight.frozen = spec->frozen;
  }
  TESSERA_CHECK(weight.parts.empty() || weight.parts.size() == roles.size(), "layer ", layer,
                ": only some of the parts of one product exist");
  return weight;
}

Weight WeightFactory::make_experts(int64_t layer, const std::vector<ParamRole>& roles) const {
  Weight weight;
  weight.dtype = scalar_type(compute_dtype(roles.front(), model_));
  for (const ParamRole role : roles) {
    for (const ParamSpec& spec : experts_.at(layer)) {
      if (spec.role != role) continue;
      ParameterPart stacked = part(spec);
      stacked.name = layer_prefix(layer) + weight_name(role, model_.design());
      stacked.shape.insert(stacked.shape.begin(), model_.n_routed_experts);
      weight.parts.push_back(std::move(stacked));
      weight.frozen = spec.frozen;
    }
  }
  TESSERA_CHECK(weight.parts.empty() || weight.parts.size() == roles.size(), "experts of layer ",
                layer, ": only some of the parts of one product exist");
  return weight;
}

Weight WeightFactory::make_norm(int64_t layer, std::string_view name) const {
  const std::string full = layer_prefix(layer) + std::string(name) + ".weight";
  Weight weight;
  for (const ParamSpec& spec : specs_.at(layer)) {
    if (spec.name != full) continue;
    weight.dtype = scalar_type(compute_dtype(spec.role, model_));
    weight.parts.push_back(part(spec));
    weight.frozen = spec.frozen;
  }
  TESSERA_CHECK_EQ(weight.parts.size(), size_t{1}, "norms named ", full);
  return weight;
}

std::optional<WeightFactory::AdapterParts> WeightFactory::adapter(
    int64_t layer, const ParameterPart& matrix) const {
  const size_t place = matrix.name.find("{e}");
  const bool of_experts = place != std::string::npos;
  const auto& table = of_experts ? experts_ : specs_;
  const auto specs = table.find(layer);
  if (specs == table.end()) return std::nullopt;
  std::string name = matrix.name;
  if (of_experts) name.replace(place, 3, "0");
  std::vector<ParameterPart> found;
  for (const ParamSpec& spec : specs->second) {
    if (spec.adapts != name) continue;
    const bool is_a = found.empty();
    ParameterPart made = part(spec);
    made.init_std = is_a ? model_.lora.lora_a_std : model_.lora.lora_b_std;
    made.init = made.init_std > 0 ? InitKind::kNormal : InitKind::kZeros;
    if (of_experts) {
      made.name = adapter_name(matrix.name, is_a ? AdapterSide::kA : AdapterSide::kB);
      made.shape.insert(made.shape.begin(), model_.n_routed_experts);
    }
    found.push_back(std::move(made));
  }
  if (found.empty()) return std::nullopt;
  TESSERA_CHECK_EQ(found.size(), size_t{2}, "A and B of ", matrix.name);
  return AdapterParts{std::move(found[0]), std::move(found[1])};
}

std::vector<int64_t> WeightFactory::rows(int64_t layer, const std::vector<ParamRole>& roles) const {
  std::vector<int64_t> all;
  for (const ParamRole role : roles) all.push_back(find(layer, role)->shape[0]);
  return all;
}

bool WeightFactory::has(int64_t layer, ParamRole role) const { return find(layer, role); }

const ParamSpec* WeightFactory::find(int64_t layer, ParamRole role) const {
  const auto found = specs_.find(layer);
  if (found == specs_.end()) return nullptr;
  for (const ParamSpec& spec : found->second) {
    if (spec.role == role) return &spec;
  }
  return nullptr;
}

ParameterPart WeightFactory::part(const ParamSpec& spec) const {
  ParameterPart part;
  part.name = spec.name;
  part.shape = spec.shape;
  part.role = spec.role;
  const bool starts_at_one = is_norm(spec.role) && model_.design().norm_scale == NormScale::kWeight;
  part.init = starts_at_one            ? InitKind::kOnes
              : spec.shape.size() == 1 ? InitKind::kZeros
                                       : InitKind::kNormal;
  part.init_std = deviation_.of(spec.name);
  part.storage =
      scalar_type(spec.frozen ? frozen_dtype(spec.role, model_) : storage_dtype(spec.role, model_));
  return part;
}

}  // namespace tessera
