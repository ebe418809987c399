#include "tessera/config/optimizer_kind.h"

#include <algorithm>

#include "tessera/config/config.h"

namespace tessera {

bool OptimizerKind::has(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end();
}

OptimizerTable::OptimizerTable(std::vector<OptimizerKind> rows) {
  for (OptimizerKind& row : rows) {
    rows_.push_back(std::make_shared<const OptimizerKind>(std::move(row)));
  }
}

std::shared_ptr<const OptimizerKind> OptimizerTable::find(std::string_view name) const {
  const auto found = std::ranges::find(rows_, name, [](const auto& row) { return row->name; });
  return found == rows_.end() ? nullptr : *found;
}

OptimizerTable OptimizerTable::with(OptimizerKind row) const {
  OptimizerTable longer = *this;
  longer.rows_.push_back(std::make_shared<const OptimizerKind>(std::move(row)));
  return longer;
}

std::string OptimizerTable::names() const {
  std::string names;
  for (const auto& row : rows_) names += (names.empty() ? "" : ", ") + row->name;
  return names;
}

bool OptimizerTable::is_of_some(std::string_view key) const {
  return std::ranges::any_of(rows_, [key](const auto& row) { return row->has(key); });
}

const OptimizerTable& builtin_optimizers() {
  using Slots = std::vector<std::string>;
  static const OptimizerTable table({
      {.name = "AdamW",
       .keys = {"betas", "eps", "amsgrad"},
       .slots =
           [](const OptimizerConfig& config, ParamRole) {
             Slots slots{"exp_avg", "exp_avg_sq"};
             if (config.amsgrad) slots.emplace_back("max_exp_avg_sq");
             return slots;
           }},
      {.name = "SGD",
       .keys = {"momentum"},
       .slots =
           [](const OptimizerConfig& config, ParamRole) {
             return config.momentum == 0.0 ? Slots{} : Slots{"momentum_buffer"};
           }},
  });
  return table;
}

}  // namespace tessera
