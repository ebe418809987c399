#include "tessera/config/optimizer_kind.h"

#include <algorithm>

#include "tessera/config/config.h"

namespace tessera {

bool OptimizerKind::has(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end();
}

std::shared_ptr<const OptimizerKind> OptimizerTable::find(std::string_view name) const {
  return find_by(&OptimizerKind::name, name);
}

OptimizerTable OptimizerTable::with(OptimizerKind row) const {
  OptimizerTable longer = *this;
  longer.add(std::move(row));
  return longer;
}

std::string OptimizerTable::names() const { return join(&OptimizerKind::name); }

bool OptimizerTable::is_key_of_others(std::string_view path, const OptimizerKind& kind) const {
  constexpr std::string_view kSection = "optimizer.";
  if (!path.starts_with(kSection)) return false;
  const std::string_view key = path.substr(kSection.size());
  return !kind.has(key) &&
         std::ranges::any_of(rows(), [key](const auto& row) { return row->has(key); });
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
