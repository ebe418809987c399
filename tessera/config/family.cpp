#include "tessera/config/family.h"

namespace tessera {

std::shared_ptr<const Family> FamilyTable::find(std::string_view model_type) const {
  return find_by(&Family::model_type, model_type);
}

std::shared_ptr<const Family> FamilyTable::find_architecture(std::string_view architecture) const {
  return find_by(&Family::architecture, architecture);
}

FamilyTable FamilyTable::with(Family row) const {
  FamilyTable longer = *this;
  longer.add(std::move(row));
  return longer;
}

std::string FamilyTable::names() const { return join(&Family::model_type); }
std::string FamilyTable::architectures() const { return join(&Family::architecture); }

ModelConfig family_defaults(const std::shared_ptr<const Family>& family) {
  if (!family) return {};
  ModelConfig model = family->defaults;
  model.model_type = family->model_type;
  model.family = family;
  return model;
}

}  // namespace tessera
