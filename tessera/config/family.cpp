#include "tessera/config/family.h"

#include <algorithm>

namespace tessera {
namespace {

std::string join(const std::vector<std::shared_ptr<const Family>>& rows,
                 std::string Family::*name) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + (*row).*name;
  return text;
}

std::shared_ptr<const Family> find_by(const std::vector<std::shared_ptr<const Family>>& rows,
                                      std::string Family::*name, std::string_view value) {
  const auto found =
      std::ranges::find_if(rows, [&](const auto& row) { return (*row).*name == value; });
  return found == rows.end() ? nullptr : *found;
}

}  // namespace

FamilyTable::FamilyTable(std::vector<Family> rows) {
  for (Family& row : rows) rows_.push_back(std::make_shared<const Family>(std::move(row)));
}

std::shared_ptr<const Family> FamilyTable::find(std::string_view model_type) const {
  return find_by(rows_, &Family::model_type, model_type);
}

std::shared_ptr<const Family> FamilyTable::find_architecture(std::string_view architecture) const {
  return find_by(rows_, &Family::architecture, architecture);
}

FamilyTable FamilyTable::with(Family row) const {
  FamilyTable longer = *this;
  longer.rows_.push_back(std::make_shared<const Family>(std::move(row)));
  return longer;
}

std::string FamilyTable::names() const { return join(rows_, &Family::model_type); }
std::string FamilyTable::architectures() const { return join(rows_, &Family::architecture); }

ModelConfig family_defaults(const std::shared_ptr<const Family>& family) {
  if (!family) return {};
  ModelConfig model = family->defaults;
  model.model_type = family->model_type;
  model.family = family;
  return model;
}

}  // namespace tessera
