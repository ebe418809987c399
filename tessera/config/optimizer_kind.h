#pragma once

// An optimizer is a row of a table. Here stands what reading a file, its rules, the planner and
// checkpoints must know of it; tessera/optim/optimizers.h has the row that makes it run. Nothing
// else of the program knows optimizers by name.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/row_table.h"

namespace tessera {

struct OptimizerConfig;
enum class ParamRole;

struct OptimizerKind {
  std::string name;  // optimizer.type, and what a checkpoint says
  /// Keys of the section `optimizer` that mean something to it, beside those that every optimizer
  /// has.
  std::vector<std::string_view> keys;
  /// An update needs the whole of a matrix in one place, not only the rows of a rank.
  bool needs_whole_matrices = false;
  /// The names of the tensors that it keeps for a parameter of this role between updates
  /// ("exp_avg"). Each has the shape and type of the master.
  std::function<std::vector<std::string>(const OptimizerConfig&, ParamRole)> slots;

  bool has(std::string_view key) const;  // whether `key` is one of its own
};

/// Optimizers by name.
class OptimizerTable : public RowTable<OptimizerKind> {
 public:
  using RowTable::RowTable;

  /// nullptr when there is none of that name.
  std::shared_ptr<const OptimizerKind> find(std::string_view name) const;

  /// The same optimizers and one more.
  OptimizerTable with(OptimizerKind row) const;

  /// "AdamW, SGD": the legal values of optimizer.type.
  std::string names() const;

  /// Whether `path` ("optimizer.momentum") is a key that means something to some optimizers and
  /// nothing to `kind`.
  bool is_key_of_others(std::string_view path, const OptimizerKind& kind) const;
};

/// The optimizers that the program knows by itself.
const OptimizerTable& builtin_optimizers();

}  // namespace tessera
