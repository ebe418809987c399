#include "tessera/config/optimizer_kind.h"

#include <algorithm>

#include "tessera/config/config.h"
#include "tessera/config/name_rules.h"
#include "tessera/config/param_role.h"

namespace tessera {
namespace {

// The parameters that Muon moves by whole matrices; AdamW moves the others.
bool is_matrix_of_muon(const OptimizerConfig& config, const StateOwner& owner) {
  if (owner.dims() < 2) return false;
  if (config.adamw_include) return !name_matches(*config.adamw_include, std::string(owner.name));
  return owner.role != ParamRole::kEmbedding && owner.role != ParamRole::kHead &&
         owner.role != ParamRole::kRouter;
}

}  // namespace

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
  using Slots = std::vector<Slot>;
  using enum Slot::Values;
  static const OptimizerTable table({
      {.name = "AdamW",
       .keys = {"betas", "eps", "amsgrad", "moment_dtype"},
       .slots =
           [](const OptimizerConfig& config, const StateOwner&) {
             Slots slots{{"exp_avg", kSigned}, {"exp_avg_sq", kNonNegative}};
             if (config.amsgrad) slots.push_back({"max_exp_avg_sq", kNonNegative});
             return slots;
           }},
      {.name = "Muon",
       .keys = {"momentum", "eps", "nesterov", "matched_adamw_rms", "ns_steps", "ns_coefficients",
                "adamw_betas", "adamw_eps", "adamw_include", "qk_clip_enabled", "qk_clip_threshold",
                "comm_strategy", "use_fused_adamw", "moment_dtype"},
       .needs_whole_matrices = is_matrix_of_muon,
       .default_momentum = 0.95,
       .slots =
           [](const OptimizerConfig& config, const StateOwner& owner) {
             return is_matrix_of_muon(config, owner)
                        ? Slots{{"momentum_buffer", kSigned}}
                        : Slots{{"exp_avg", kSigned}, {"exp_avg_sq", kNonNegative}};
           }},
      {.name = "SGD",
       .keys = {"momentum"},
       .slots =
           [](const OptimizerConfig& config, const StateOwner&) {
             return config.momentum == 0.0 ? Slots{} : Slots{{"momentum_buffer"}};
           }},
  });
  return table;
}

}  // namespace tessera
