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

/// A parameter of the whole model, as an optimizer sees it.
struct StateOwner {
  std::string_view name;  // Hugging Face name; stacked experts hold "{e}"
  ParamRole role;
  const std::vector<int64_t>& shape;  // experts: stacked [experts, out, in]

  /// Dimensions of the parameter itself: experts are stacked in one more.
  size_t dims() const {
    return shape.size() - (name.find("{e}") != std::string_view::npos ? 1 : 0);
  }
};

/// A tensor that an optimizer keeps for a parameter between updates, in the shape of the master.
struct Slot {
  /// Whether `optimizer.moment_dtype` may shorten it, and what range its values have.
  enum class Values { kAsMaster, kSigned, kNonNegative };

  std::string name;  // "exp_avg"
  Values values = Values::kAsMaster;

  bool operator==(const Slot&) const = default;
};

struct OptimizerKind {
  std::string name;  // optimizer.type, and what a checkpoint says
  /// Keys of the section `optimizer` that mean something to it, beside those that every optimizer
  /// has.
  std::vector<std::string_view> keys;
  /// Whether an update of the parameter needs the whole of each of its matrices in one place, not
  /// only the rows of a rank. Left out: of none.
  std::function<bool(const OptimizerConfig&, const StateOwner&)> needs_whole_matrices = nullptr;
  /// What optimizer.momentum is when the file does not say it.
  double default_momentum = 0.0;
  /// The tensors that it keeps for a parameter.
  std::function<std::vector<Slot>(const OptimizerConfig&, const StateOwner&)> slots;

  bool has(std::string_view key) const;  // whether `key` is one of its own
  bool needs_whole(const OptimizerConfig& config, const StateOwner& owner) const {
    return needs_whole_matrices && needs_whole_matrices(config, owner);
  }
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
